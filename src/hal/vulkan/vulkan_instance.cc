#include "holdfast/hal/vulkan/vulkan_instance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "holdfast/base/env.h"
#include "holdfast/base/log.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/hal/gpu/fork_refusal.h"

namespace holdfast::hal {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

using MessageHandler = std::function<void(const VulkanMessage&)>;

// Lives for ever: drivers' threads may outlive main.
sync::ProcessGuarded<std::shared_ptr<const MessageHandler>>& message_handler() {
  static auto* const forever =
      new sync::ProcessGuarded<std::shared_ptr<const MessageHandler>>;  // NOLINT: see above
  return *forever;
}

VKAPI_ATTR VkBool32 VKAPI_CALL hear(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                    VkDebugUtilsMessageTypeFlagsEXT types,
                                    const VkDebugUtilsMessengerCallbackDataEXT* data,
                                    void* /*user*/) noexcept {
  // Of what is not validation, errors alone: the loader warns of every driver it does not like.
  const bool validation = (types & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT) != 0;
  if (!validation && severity < VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT) return VK_FALSE;
  try {
    const VulkanMessage message{data->pMessageIdName != nullptr ? data->pMessageIdName : "",
                                data->pMessage != nullptr ? data->pMessage : ""};
    const std::shared_ptr<const MessageHandler> handler = *message_handler().lock();
    if (handler && *handler) {
      (*handler)(message);
    } else {
      logging::warn_text(logging::Topic::device, message.text);
    }
  } catch (...) {
    std::fputs("holdfast warning: the handler of Vulkan messages threw; one is lost\n", stderr);
  }
  return VK_FALSE;
}

VkDebugUtilsMessengerCreateInfoEXT messenger_info(VkDebugUtilsMessageTypeFlagsEXT types) {
  VkDebugUtilsMessengerCreateInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = types;
  info.pfnUserCallback = hear;
  return info;
}

// Extension functions belong to their instance; volk's globals hold those of the first one.
template <typename Function>
Function function_of(VkInstance instance, const char* name) {
  return reinterpret_cast<Function>(vkGetInstanceProcAddr(instance, name));
}

// Vulkan's way to return lists: ask for the count, then for the items, until both agree.
template <typename T, typename Function>
VkResult enumerate(std::vector<T>& items, Function function) {
  VkResult result = VK_INCOMPLETE;
  while (result == VK_INCOMPLETE) {
    uint32_t count = 0;
    result = function(&count, static_cast<T*>(nullptr));
    if (result != VK_SUCCESS) break;
    items.assign(count, T{});
    result = function(&count, items.data());
    items.resize(std::min<size_t>(count, items.size()));
  }
  if (result != VK_SUCCESS) items.clear();
  return result;
}

bool has_extension(const std::vector<VkExtensionProperties>& all, std::string_view name) {
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& e) { return e.extensionName == name; });
}

std::vector<VkExtensionProperties> instance_extensions(const char* layer) {
  std::vector<VkExtensionProperties> all;
  enumerate(all, [&](uint32_t* count, VkExtensionProperties* items) {
    return vkEnumerateInstanceExtensionProperties(layer, count, items);
  });
  return all;
}

bool has_validation_layer() {
  std::vector<VkLayerProperties> all;
  enumerate(all, [](uint32_t* count, VkLayerProperties* items) {
    return vkEnumerateInstanceLayerProperties(count, items);
  });
  return std::any_of(all.begin(), all.end(),
                     [](const auto& l) { return std::strcmp(l.layerName, kValidationLayer) == 0; });
}

std::string version_text(uint32_t version) {
  return fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                     VK_API_VERSION_PATCH(version));
}

const char* kind_text(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "software";
    default: return "other kind";
  }
}

int rank(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 3;
    default: return 4;
  }
}

// Why the device cannot be used, as a clause after its name; empty: it can.
std::string shortcoming(VkPhysicalDevice device, uint32_t version) {
  if (version < VK_API_VERSION_1_2) {
    return fmt::format("it has Vulkan {} only, and 1.2 is needed: install a newer driver",
                       version_text(version));
  }
  std::vector<VkExtensionProperties> extensions;
  enumerate(extensions, [&](uint32_t* count, VkExtensionProperties* items) {
    return vkEnumerateDeviceExtensionProperties(device, nullptr, count, items);
  });
  VkPhysicalDeviceSynchronization2Features synchronization2{};
  synchronization2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES;
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &timeline;
  if (version >= VK_API_VERSION_1_3 ||
      has_extension(extensions, VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME)) {
    timeline.pNext = &synchronization2;
  }
  vkGetPhysicalDeviceFeatures2(device, &features);
  if (timeline.timelineSemaphore != VK_TRUE) return "its driver lacks timeline semaphores";
  if (synchronization2.synchronization2 != VK_TRUE) {
    return "its driver lacks VK_KHR_synchronization2";
  }

  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  if (std::none_of(families.begin(), families.end(), [](const auto& family) {
        return (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && family.queueCount > 0;
      })) {
    return "none of its queues computes";
  }
  return {};
}

struct Ranked {
  VulkanCandidate candidate;
  int rank = 0;
};

// `instance_version`: nothing newer may be used of any device.
Ranked examine(VkPhysicalDevice device, uint32_t instance_version) {
  VkPhysicalDeviceProperties properties{};
  vkGetPhysicalDeviceProperties(device, &properties);
  std::string driver;
  if (properties.apiVersion >= VK_API_VERSION_1_2) {
    VkPhysicalDeviceDriverProperties drivers{};
    drivers.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    VkPhysicalDeviceProperties2 more{};
    more.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    more.pNext = &drivers;
    vkGetPhysicalDeviceProperties2(device, &more);
    driver = fmt::format("{} {}, ", drivers.driverName, drivers.driverInfo);
  }
  return {{.handle = device,
           .name = properties.deviceName,
           .description =
               fmt::format("{} ({}Vulkan {}, {})", properties.deviceName, driver,
                           version_text(properties.apiVersion), kind_text(properties.deviceType)),
           .skipped = shortcoming(device, std::min(properties.apiVersion, instance_version)),
           .is_gpu = properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU &&
                     properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_OTHER},
          rank(properties.deviceType)};
}

Failure no_driver() {
  return {ErrorCode::environment,
          "Vulkan finds no device: install the GPU vendor's driver, or mesa-vulkan-drivers for a "
          "software one; VK_DRIVER_FILES names a driver's .json file that lies elsewhere"};
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// "0: NVIDIA H200 (...); 1: old (...), skipped: it has Vulkan 1.0 only".
std::string listing(std::span<const VulkanCandidate> candidates) {
  std::vector<std::string> lines;
  for (const VulkanCandidate& candidate : candidates) {
    lines.push_back(fmt::format("{}: {}{}{}", lines.size(), candidate.description,
                                candidate.skipped.empty() ? "" : ", skipped: ", candidate.skipped));
  }
  return fmt::format("{}", fmt::join(lines, "; "));
}

// The loader's version, once it is loaded; 0 where there is none. It stays for the process.
uint32_t loader_version() {
  static const uint32_t version =
      volkInitialize() == VK_SUCCESS && vkCreateInstance != nullptr ? volkGetInstanceVersion() : 0;
  return version;
}

// Fills volk's globals once: the loader's functions serve every instance, and rewriting them for
// another would race with whoever calls them. Device functions stay empty, for those belong to
// their device: see volkLoadDeviceTable.
void load_functions_once(VkInstance first) {
  [[maybe_unused]] static const bool loaded = (volkLoadInstanceOnly(first), true);
}

Result<VkInstance> create(bool layers, uint32_t version) {
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pEngineName = "Holdfast";
  application.apiVersion = version;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;

  std::vector<const char*> extensions;
  // Also without the layers, so that whichever instance is first brings its functions.
  if (has_extension(instance_extensions(nullptr), VK_EXT_DEBUG_UTILS_EXTENSION_NAME)) {
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  }
  // Without it, loaders do not list devices that lack some of Vulkan, as through MoltenVK.
  if (has_extension(instance_extensions(nullptr), VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  // Here for what is wrong while the instance itself is made or goes: objects left behind.
  VkDebugUtilsMessengerCreateInfoEXT messenger =
      messenger_info(VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT);
  const VkValidationFeatureEnableEXT enabled =
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT checks{};
  checks.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
  checks.pNext = &messenger;
  checks.enabledValidationFeatureCount = 1;
  checks.pEnabledValidationFeatures = &enabled;
  if (layers) {
    const auto offered = instance_extensions(kValidationLayer);
    if (!has_validation_layer() ||
        !has_extension(offered, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME)) {
      return Failure(ErrorCode::environment,
                     fmt::format("Vulkan's validation layers ({}) are not there: install "
                                 "vulkan-validationlayers, or do without HOLDFAST_VULKAN_LAYERS",
                                 kValidationLayer));
    }
    if (extensions.empty()) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    info.pNext = &checks;
  }
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();

  VkInstance handle = VK_NULL_HANDLE;
  const VkResult result = vkCreateInstance(&info, nullptr, &handle);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) return no_driver();
  if (Failure failure = failure_of(result, "making a Vulkan instance")) return failure;
  return handle;
}

// The living instances, without and with layers.
using SharedInstances = sync::ProcessGuarded<std::array<std::weak_ptr<const VulkanInstance>, 2>>;
SharedInstances& shared_instances() {
  static auto* const forever = new SharedInstances;  // NOLINT: devices may be closed after main
  return *forever;
}

}  // namespace

std::function<void(const VulkanMessage&)> set_vulkan_message_handler(
    std::function<void(const VulkanMessage&)> handler) {
  auto next = std::make_shared<const MessageHandler>(std::move(handler));
  {
    auto held = message_handler().lock();
    std::swap(*held, next);
  }
  return next ? *next : MessageHandler();
}

Result<std::shared_ptr<const VulkanInstance>> VulkanInstance::get(bool layers) {
  try {
    layers = layers || env::flag("HOLDFAST_VULKAN_LAYERS").value_or(false);
  } catch (const EnvironmentError& error) {
    return Failure(ErrorCode::environment, error.what());
  }
  static constinit std::atomic<uint64_t> owner{0};
  if (Failure refused = refusal_after_fork(owner, "Vulkan")) return refused;
  if (auto alive = (*shared_instances().lock())[layers ? 1 : 0].lock()) return alive;

  // The loader loads drivers, and a child that loads anything itself must not find that half done.
  const sync::NoFork whole;
  // Made without the lock, as it takes tens of milliseconds and enters drivers.
  if (loader_version() == 0) {
    return Failure(ErrorCode::environment,
                   "Vulkan's loader (libvulkan.so.1) is not there: install libvulkan1 and a "
                   "driver, or put its folder into LD_LIBRARY_PATH");
  }
  if (loader_version() < VK_API_VERSION_1_2) {
    return Failure(ErrorCode::environment,
                   fmt::format("Vulkan's loader (libvulkan.so.1) is version {}, and 1.2 is needed: "
                               "install a newer libvulkan1",
                               version_text(loader_version())));
  }
  const uint32_t version =
      loader_version() >= VK_API_VERSION_1_3 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_2;
  auto created = create(layers, version);
  if (!created.ok()) return created.failure();
  load_functions_once(created.value());
  // Owns the handle from here on.
  const std::shared_ptr<VulkanInstance> made(new VulkanInstance);
  made->handle_ = created.value();
  made->layers_ = layers;
  if (layers) {
    const auto info = messenger_info(VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                                     VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT);
    const auto create_messenger = function_of<PFN_vkCreateDebugUtilsMessengerEXT>(
        made->handle_, "vkCreateDebugUtilsMessengerEXT");
    if (create_messenger == nullptr) {
      return Failure(ErrorCode::environment,
                     "Vulkan's validation layers cannot report: the loader lacks "
                     "VK_EXT_debug_utils; install a newer libvulkan1");
    }
    if (Failure failure =
            failure_of(create_messenger(made->handle_, &info, nullptr, &made->messenger_),
                       "listening to Vulkan's validation layers")) {
      return failure;
    }
  }

  std::vector<VkPhysicalDevice> devices;
  const VkResult found = enumerate(devices, [&](uint32_t* count, VkPhysicalDevice* items) {
    return vkEnumeratePhysicalDevices(made->handle_, count, items);
  });
  // What the loader answers where every driver refused to start.
  if (found == VK_ERROR_INITIALIZATION_FAILED) return no_driver();
  if (Failure failure = failure_of(found, "listing Vulkan's devices")) return failure;
  if (devices.empty()) return no_driver();
  std::vector<Ranked> ranked;
  for (VkPhysicalDevice device : devices) ranked.push_back(examine(device, version));
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::pair(!a.candidate.skipped.empty(), a.rank) <
           std::pair(!b.candidate.skipped.empty(), b.rank);
  });
  for (Ranked& one : ranked) made->candidates_.push_back(std::move(one.candidate));

  auto shared = shared_instances().lock();
  std::weak_ptr<const VulkanInstance>& slot = (*shared)[layers ? 1 : 0];
  // Another thread may have been faster; `made` then goes after the lock does.
  if (auto alive = slot.lock()) return alive;
  slot = made;
  return std::shared_ptr<const VulkanInstance>(made);
}

VulkanInstance::~VulkanInstance() {
  if (fork_generation_ != sync::fork_generation()) return;  // it is the parent's
  const sync::NoFork whole;                                 // it unloads drivers
  if (messenger_ != VK_NULL_HANDLE) {
    function_of<PFN_vkDestroyDebugUtilsMessengerEXT>(handle_, "vkDestroyDebugUtilsMessengerEXT")(
        handle_, messenger_, nullptr);
  }
  vkDestroyInstance(handle_, nullptr);
}

Result<const VulkanCandidate*> VulkanInstance::choose(std::string_view selector) const {
  const auto refused = [&](ErrorCode code, const std::string& what) {
    return Failure(code, fmt::format("{}; there are: {}", what, listing(candidates_)));
  };
  size_t index = 0;
  const char* const end = selector.data() + selector.size();
  const auto [stop, error] = std::from_chars(selector.data(), end, index);
  const VulkanCandidate* skipped = nullptr;
  // A number past the last device may still be a part of a name: "4090".
  if (!selector.empty() && error == std::errc() && stop == end && index < candidates_.size()) {
    if (candidates_[index].skipped.empty()) return &candidates_[index];
    skipped = &candidates_[index];
  } else {
    const std::string wanted = lowered(selector);
    for (const VulkanCandidate& candidate : candidates_) {
      if (lowered(candidate.name).find(wanted) == std::string::npos) continue;
      if (candidate.skipped.empty()) return &candidate;
      if (skipped == nullptr) skipped = &candidate;
    }
  }
  if (selector.empty()) return refused(ErrorCode::unsupported, "no Vulkan device here can be used");
  if (skipped != nullptr) {
    return refused(ErrorCode::unsupported, fmt::format("the Vulkan device '{}' cannot be used: {}",
                                                       skipped->name, skipped->skipped));
  }
  return refused(
      ErrorCode::usage,
      fmt::format("no Vulkan device has the number '{0}' or a name with '{0}' in it", selector));
}

}  // namespace holdfast::hal
