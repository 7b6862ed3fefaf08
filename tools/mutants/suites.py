"""The test programs, and how to run them with a mutant on."""

import glob
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time

LAYERS = ["src/base", "src/hal", "src/runtime", "src/kernel", "src/array"]
GIGABYTE = 1 << 30
NOT_NIGHTLY = "-*ightly*"
ON_VULKAN = ":".join("*/" + name for name in (
    "vulkan", "validate_vulkan", "vulkan_discrete", "validate_vulkan_discrete",
    "vulkan_without_push_descriptors", "validate_adversary_vulkan"))


def layer_of(path):
    return next((i for i, layer in enumerate(LAYERS) if path.startswith(layer + "/")), 0)


class Suite:
    """Tests of one program that run in one environment."""

    def __init__(self, name, program, layer, tests=NOT_NIGHTLY, only=None, **environment):
        self.name = name
        self.program = program
        self.layer = LAYERS.index(layer)
        self.tests = tests  # GoogleTest's filter; None: a program that exits with 0
        self.only = only  # the folder whose mutants this suite is for
        self.environment = environment

    def serves(self, site):
        if self.only is not None and not site.path.startswith(self.only):
            return False
        return self.layer >= layer_of(site.path)

    def distance(self, site):
        """Grows with the layers between the suite and the site; slow ones come last."""
        slow = "HOLDFAST_VULKAN_LAYERS" in self.environment
        return 2 * (self.layer - layer_of(site.path)) + slow


def suites(root):
    found = [
        Suite("base", "holdfast_base_test", "src/base"),
        Suite("hal", "holdfast_hal_test", "src/hal"),
        Suite("cts", "holdfast_cts", "src/hal", NOT_NIGHTLY + ":*/*vulkan*"),
        Suite("cts on vulkan", "holdfast_cts", "src/hal", ON_VULKAN + NOT_NIGHTLY,
              only="src/hal/vulkan"),
        Suite("cts under the layers", "holdfast_cts", "src/hal", "*ulkan*" + NOT_NIGHTLY,
              only="src/hal/vulkan", HOLDFAST_VULKAN_LAYERS="1"),
        Suite("runtime", "holdfast_runtime_test", "src/runtime"),
        Suite("scenarios", "holdfast_scenarios", "src/runtime"),
        Suite("scenarios on a discrete device", "holdfast_scenarios", "src/runtime",
              "RuntimeScenario.*_vulkan_*", HOLDFAST_TEST_DISCRETE="1"),
        Suite("kernel", "holdfast_kernel_test", "src/kernel"),
        Suite("array", "holdfast_array_test", "src/array"),
    ]
    for source in sorted(glob.glob(os.path.join(root, "tests", "programs", "*.cc"))):
        name = os.path.basename(source)[: -len(".cc")]
        found.append(Suite(f"program {name}", f"holdfast_program_{name}", "src/array", tests=None))
    return found


class Test:
    """A test that passes without a mutant; `reached` are the numbers of the places it passes."""

    def __init__(self, suite, name, seconds, file, reached):
        self.suite = suite
        self.name = name
        self.seconds = seconds
        self.file = file
        self.reached = reached


class Outcome:
    """How a run ended: the tests that did not pass, of which one may have crashed or hung."""

    def __init__(self):
        self.failed = []
        self.status = 0
        self.timed_out = False
        self.ended = []  # (name, outcome, seconds, file, reached)
        self.before = set()  # reached before the first test

    @property
    def bad(self):
        return bool(self.failed) or self.status != 0 or self.timed_out

    def why(self):
        if self.timed_out:
            return "hangs in " + (self.failed[0] if self.failed else "its start or end")
        if self.status < 0:
            name = signal.Signals(-self.status).name
            return f"{name} in " + (self.failed[-1] if self.failed else "its start or end")
        if self.failed:
            return self.failed[0]
        return f"exit status {self.status}"


def sandbox():
    """Keeps a mutant's signals to its own processes, where this is allowed."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare"):
        done = subprocess.run([*command, "true"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            return command
    return []


class Runner:
    def __init__(self, root, folder, size):
        self.root = root
        self.folder = folder
        self.size = size  # bytes of a file of marks
        self.scratch = os.path.join(folder, "scratch")
        self.warm = os.path.join(folder, "test_cache")
        self.sandbox = sandbox()
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.makedirs(self.scratch)
        os.makedirs(self.warm, exist_ok=True)

    def environment(self, suite):
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("HOLDFAST_", "GTEST_"))}
        environment.update(HOLDFAST_VALIDATE="1", HOLDFAST_REQUIRE_VULKAN="1", GTEST_COLOR="no")
        if glob.glob(os.path.join(self.root, "build", "nvrtc", "libnvrtc.so.*")):
            environment.update(HOLDFAST_NVRTC_DIR=os.path.join(self.root, "build", "nvrtc"),
                               HOLDFAST_REQUIRE_NVRTC="1")
        environment.update(suite.environment)
        return environment

    def command(self, suite, names):
        """The command that runs these tests by hand."""
        words = [f"{k}={v}" for k, v in self.environment(suite).items()
                 if k.startswith("HOLDFAST_")]
        words.append(os.path.relpath(os.path.join(self.folder, suite.program), self.root))
        if suite.tests is not None:
            words.append("--gtest_filter='" + ":".join(names) + "'")
        return " ".join(words)

    def run(self, suite, names, limit, mutant=None, record=False, shard=None, cold=False,
            output=None):
        """Runs tests by their names, or all of the suite where `names` is None.

        `limit`: seconds until it counts as hanging. `cold`: with an empty kernel cache. `output`: a
        file for what the program prints.
        """
        folder = tempfile.mkdtemp(dir=self.scratch)
        try:
            return self.run_in(folder, suite, names, limit, mutant, record, shard, cold, output)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run_in(self, folder, suite, names, limit, mutant, record, shard, cold, output):
        environment = self.environment(suite)
        cache = os.path.join(folder, "cache")
        os.mkdir(os.path.join(folder, "tmp"))
        environment["TMPDIR"] = os.path.join(folder, "tmp")
        log = os.path.join(folder, "log")
        environment["HOLDFAST_MUTANT_LOG"] = log
        environment["HOLDFAST_CACHE_DIR"] = cache
        marks = os.path.join(folder, "marks")
        if record:
            # What compiles kernels is reached where the cache does not have them; what this run
            # compiles is there for those that follow.
            environment["HOLDFAST_MUTANT_REACHED"] = marks
            with open(marks, "wb") as file:
                file.truncate(self.size)
        elif not cold:
            shutil.copytree(self.warm, cache, dirs_exist_ok=True)
        if mutant is not None:
            environment["HOLDFAST_MUTANT"] = str(mutant)
        if shard is not None:
            environment["GTEST_SHARD_INDEX"], environment["GTEST_TOTAL_SHARDS"] = map(str, shard)
        command = [*self.sandbox, os.path.join(self.folder, suite.program)]
        if suite.tests is not None:
            flags = os.path.join(folder, "flags")
            with open(flags, "w", encoding="utf-8") as file:
                tests = suite.tests if names is None else ":".join(names)
                print("--gtest_filter=" + tests, file=file)
                if mutant is not None:
                    print("--gtest_fail_fast", file=file)
            command.append("--gtest_flagfile=" + flags)
        outcome = Outcome()
        started = time.monotonic()
        with open(output or os.devnull, "ab") as sink:
            # As ctest does: where sources are named, it is from the build's folder.
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=sink,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=limits)
            try:
                outcome.status = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                outcome.timed_out = True
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        if outcome.status > 128:  # the shell's and unshare's way to pass a signal on
            outcome.status = 128 - outcome.status
        if suite.tests is None:
            self.read_program(suite, outcome, marks if record else None, time.monotonic() - started)
        else:
            read_log(log, outcome)
        if record and os.path.isdir(cache):
            shutil.copytree(cache, self.warm, dirs_exist_ok=True)
        return outcome

    def read_program(self, suite, outcome, marks, seconds):
        reached = set()
        if marks is not None:
            with open(marks, "rb") as file:
                reached = {i for i, byte in enumerate(file.read()) if byte}
        good = outcome.status == 0 and not outcome.timed_out
        outcome.ended.append((suite.name, "passed" if good else "failed", seconds, "", reached))
        if not good:
            outcome.failed.append(suite.name)


def limits():
    """For the child: a mutant may ask for everything."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (GIGABYTE, GIGABYTE))
    resource.setrlimit(resource.RLIMIT_DATA, (8 * GIGABYTE, 8 * GIGABYTE))


def read_log(path, outcome):
    running = None
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        if words[:1] == ["before"]:
            outcome.before.update(map(int, words[1:]))
        elif words[:1] == ["start"]:
            running = words[1]
        elif words[:1] == ["end"] and len(words) >= 5:
            running = None
            name, result, milliseconds, file = words[1:5]
            reached = set(map(int, words[5:]))
            outcome.ended.append((name, result, int(milliseconds) / 1000, file, reached))
            if result == "failed":
                outcome.failed.append(name)
    if running is not None:
        outcome.failed.append(running)
