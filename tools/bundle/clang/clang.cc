// The part of clang that Clang (src/kernel/targets/vulkan/clang.h) calls: C++ to the text of LLVM.
// It has no code generator of any machine, and so a fifth of the size of the whole.
#include <clang/Basic/DiagnosticOptions.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Driver/Compilation.h>
#include <clang/Driver/Driver.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendActions.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Host.h>
#include <llvm/Support/raw_ostream.h>

#include <memory>
#include <vector>

// Debian's libraries ask for Polly, which does nothing unless it is told to.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", "", [](llvm::PassBuilder&) {}};
}

int main(int count, char** words) {
  const std::vector<const char*> arguments(words, words + count);
  const auto diagnostics =
      clang::CompilerInstance::createDiagnostics(new clang::DiagnosticOptions());
  clang::driver::Driver driver(words[0], llvm::sys::getDefaultTargetTriple(), *diagnostics);
  driver.setCheckInputsExist(false);
  const std::unique_ptr<clang::driver::Compilation> compilation(driver.BuildCompilation(arguments));
  if (!compilation || compilation->getJobs().size() != 1 || diagnostics->hasErrorOccurred()) {
    llvm::errs() << "error: exactly one source can be compiled\n";
    return 1;
  }

  clang::CompilerInstance compiler;
  clang::CompilerInvocation::CreateFromArgs(
      compiler.getInvocation(), compilation->getJobs().begin()->getArguments(), *diagnostics);
  compiler.createDiagnostics();
  if (!compiler.hasDiagnostics() || diagnostics->hasErrorOccurred()) return 1;
  std::vector<const char*> options_of_llvm{"clang"};
  for (const std::string& option : compiler.getFrontendOpts().LLVMArgs) {
    options_of_llvm.push_back(option.c_str());
  }
  llvm::cl::ParseCommandLineOptions(static_cast<int>(options_of_llvm.size()),
                                    options_of_llvm.data());
  switch (compiler.getFrontendOpts().ProgramAction) {
    case clang::frontend::EmitLLVM: {
      clang::EmitLLVMAction action;
      return compiler.ExecuteAction(action) ? 0 : 1;
    }
    case clang::frontend::PrintPreprocessedInput: {
      clang::PrintPreprocessedAction action;
      return compiler.ExecuteAction(action) ? 0 : 1;
    }
    default: llvm::errs() << "error: only -E and -emit-llvm can be done here\n"; return 1;
  }
}
