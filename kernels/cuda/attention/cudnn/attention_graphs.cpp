// cuDNN's graphs of attention, forward and backward, through cudnn-frontend. By itself in a file,
// for g++: this header alone takes a minute to compile.
// The library is found when the program runs (cudnn-frontend's dynamic loading), not linked.
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include "attention/cudnn_attention.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the header declares it and asks the program to fill it
}

namespace chimera::cuda {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Id : std::int64_t { Q = 1, K, V, Out, Lse, DOut, DQ, DK, DV };

void check(fe::error_t error, const std::string& what) {
  ENSURE(error.is_good(), what, ": cuDNN says ", error.get_message());
}

// Loads the library once for the process; the reason why not, or nothing.
std::string load_library() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (fe::cudnn_dlhandle != nullptr) return {};
  const std::string name = concat("libcudnn.so.", CUDNN_MAJOR);
  fe::cudnn_dlhandle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (fe::cudnn_dlhandle == nullptr) return dlerror();
  // The frontend looks for CUDA's runtime by name: it is to take the one that this program has.
  const std::string runtime = concat("libcudart.so.", CUDART_VERSION / 1000);
  setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), /*overwrite=*/0);
  return {};
}

TensorPtr tensor(fe::graph::Graph& graph, Id id, const AttentionCase& c, bool packed) {
  const Index C = c.H * c.head, row = packed ? 3 * C : C;
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(std::to_string(id))
                          .set_uid(id)
                          .set_dim({c.B, c.H, c.T, c.head})
                          .set_stride({c.T * row, c.head, row, 1}));
}
void set_output(const TensorPtr& t, Id id, const AttentionCase& c, bool packed) {
  const Index C = c.H * c.head, row = packed ? 3 * C : C;
  t->set_output(true)
      .set_uid(id)
      .set_dim({c.B, c.H, c.T, c.head})
      .set_stride({c.T * row, c.head, row, 1});
}
fe::graph::Tensor_attributes lse_tensor(const AttentionCase& c) {
  return fe::graph::Tensor_attributes()
      .set_name("lse")
      .set_uid(Lse)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({c.B, c.H, c.T, 1})
      .set_stride({c.H * c.T, c.T, 1, 1});
}
float scale_of(const AttentionCase& c) { return 1.0f / std::sqrt(static_cast<float>(c.head)); }

void set_types(fe::graph::Graph& graph, DType type) {
  graph.set_io_data_type(type == DType::BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

void describe_forward(fe::graph::Graph& graph, const AttentionCase& c) {
  const auto options = fe::graph::SDPA_attributes()
                           .set_name("attention_forward")
                           .set_generate_stats(true)
                           .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                           .set_diagonal_band_right_bound(0)
                           .set_attn_scale(scale_of(c));
  const TensorPtr q = tensor(graph, Q, c, true), k = tensor(graph, K, c, true),
                  v = tensor(graph, V, c, true);
  const auto [out, lse] = graph.sdpa(q, k, v, options);
  set_output(out, Out, c, false);
  lse->set_output(true)
      .set_uid(Lse)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({c.B, c.H, c.T, 1})
      .set_stride({c.H * c.T, c.T, 1, 1});
}

void describe_backward(fe::graph::Graph& graph, const AttentionCase& c) {
  const auto options = fe::graph::SDPA_backward_attributes()
                           .set_name("attention_backward")
                           .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                           .set_diagonal_band_right_bound(0)
                           .set_attn_scale(scale_of(c))
                           .set_deterministic_algorithm(true);
  const TensorPtr q = tensor(graph, Q, c, true), k = tensor(graph, K, c, true),
                  v = tensor(graph, V, c, true), out = tensor(graph, Out, c, false),
                  dout = tensor(graph, DOut, c, false), lse = graph.tensor(lse_tensor(c));
  const auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, out, dout, lse, options);
  set_output(dq, DQ, c, true);
  set_output(dk, DK, c, true);
  set_output(dv, DV, c, true);
}

void describe(fe::graph::Graph& graph, const AttentionCase& c, AttentionPass pass) {
  set_types(graph, c.type);
  pass == AttentionPass::Forward ? describe_forward(graph, c) : describe_backward(graph, c);
}

const char* name(AttentionPass pass) {
  return pass == AttentionPass::Forward ? "forward" : "backward";
}

class Graphs final : public CudnnAttention {
 public:
  explicit Graphs(CUstream_st* stream) {
    const cudnnStatus_t status = fe::detail::create_handle(&handle_);
    ENSURE(status == CUDNN_STATUS_SUCCESS,
           "starting cuDNN: ", fe::detail::get_error_string(status));
    check_status(fe::detail::set_stream(handle_, stream), "giving cuDNN its stream");
  }
  ~Graphs() override {
    plans_.clear();
    fe::detail::destroy_handle(handle_);
  }

  std::string version() const override {
    const std::size_t v = fe::detail::get_backend_version();
    return concat("cuDNN ", v / 10000, ".", v / 100 % 100, ".", v % 100);
  }

  std::optional<Index> prepare(const AttentionCase& c, AttentionPass pass,
                               std::string& reason) override {
    auto found = plans_.find({c, pass});
    if (found == plans_.end()) found = plans_.emplace(std::pair{c, pass}, build(c, pass)).first;
    reason = found->second.reason;
    if (found->second.graph == nullptr) return std::nullopt;
    return found->second.workspace;
  }

  void forward(const AttentionCase& c, void* out, float* lse, const void* qkv,
               void* workspace) override {
    std::unordered_map<std::int64_t, void*> memory{{Out, out}, {Lse, lse}};
    add_packed(memory, {Q, K, V}, const_cast<void*>(qkv), c);
    run(c, AttentionPass::Forward, memory, workspace);
  }
  void backward(const AttentionCase& c, void* dqkv, const void* dout, const void* out,
                const float* lse, const void* qkv, void* workspace) override {
    std::unordered_map<std::int64_t, void*> memory{{Out, const_cast<void*>(out)},
                                                   {DOut, const_cast<void*>(dout)},
                                                   {Lse, const_cast<float*>(lse)}};
    add_packed(memory, {Q, K, V}, const_cast<void*>(qkv), c);
    add_packed(memory, {DQ, DK, DV}, dqkv, c);
    run(c, AttentionPass::Backward, memory, workspace);
  }

 private:
  struct Plan {
    std::unique_ptr<fe::graph::Graph> graph;  // null: there is none, for `reason`
    Index workspace = 0;
    std::string reason;
  };

  static void check_status(cudnnStatus_t status, const char* what) {
    ENSURE(status == CUDNN_STATUS_SUCCESS, what, ": ", fe::detail::get_error_string(status));
  }
  static void add_packed(std::unordered_map<std::int64_t, void*>& memory,
                         std::initializer_list<Id> ids, void* packed, const AttentionCase& c) {
    auto* at = static_cast<std::byte*>(packed);
    for (const Id id : ids) {
      memory[id] = at;
      at += c.H * c.head * size_of(c.type);
    }
  }

  Plan build(const AttentionCase& c, AttentionPass pass) {
    Plan plan;
    auto graph = std::make_unique<fe::graph::Graph>();
    try {
      describe(*graph, c, pass);
      check(graph->build(handle_, {fe::HeurMode_t::A}), name(pass));
      std::int64_t bytes = 0;
      check(graph->get_workspace_size(bytes), name(pass));
      plan.workspace = bytes;
      plan.graph = std::move(graph);
    } catch (const std::exception& e) {
      plan.reason = e.what();
    }
    return plan;
  }

  void run(const AttentionCase& c, AttentionPass pass,
           std::unordered_map<std::int64_t, void*>& memory, void* workspace) {
    const auto found = plans_.find({c, pass});
    ENSURE(found != plans_.end() && found->second.graph != nullptr, "cuDNN's attention ",
           name(pass), " of ", to_string(c), " was not prepared");
    check(found->second.graph->execute(handle_, memory, workspace),
          concat("attention ", name(pass), " of ", to_string(c)));
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<std::pair<AttentionCase, AttentionPass>, Plan> plans_;
};

}  // namespace

std::unique_ptr<CudnnAttention> find_cudnn_attention(CUstream_st* stream, std::string& reason) {
  reason = load_library();
  if (!reason.empty()) return nullptr;
  try {
    return std::make_unique<Graphs>(stream);
  } catch (const std::exception& e) {
    reason = e.what();
    return nullptr;
  }
}

std::vector<std::string> check_cudnn_attention(const AttentionCase& c,
                                               const std::string& device_json, int capability) {
  const std::string missing = load_library();
  ENSURE(missing.empty(), "cuDNN: ", missing);
  auto device = std::make_shared<fe::DeviceProperties>();
  check(device->deserialize({device_json.begin(), device_json.end()}), "the description of a GPU");
  std::vector<std::string> lines{concat("cuDNN ", fe::detail::get_backend_version(), ", frontend ",
                                        CUDNN_FRONTEND_VERSION, ", ", to_string(c))};
  for (const AttentionPass pass : {AttentionPass::Forward, AttentionPass::Backward}) {
    fe::graph::Graph graph;
    graph.set_device_properties(device).set_sm_version(capability);
    describe(graph, c, pass);
    const auto stage = [&](const char* what, const fe::error_t& error) {
      check(error, concat(name(pass), ": ", what));
      lines.push_back(concat(name(pass), ": ", what, ": ok"));
    };
    stage("validate", graph.validate());
    stage("build_operation_graph", graph.build_operation_graph());
    stage("create_execution_plans", graph.create_execution_plans({fe::HeurMode_t::A}));
    stage("check_support", graph.check_support());
  }
  return lines;
}

}  // namespace chimera::cuda
