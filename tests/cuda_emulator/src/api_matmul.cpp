// cuBLASLt: candidates, and the checks before a product is enqueued.
#include <cstring>
#include <set>

#include "machine.h"
#include "matmul.h"
#include "matmul_call.h"
#include "race.h"

using namespace emulator;
using chimera::concat;

namespace {

// What a candidate relies on, kept in cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t magic, split, workspace, key;
  std::uint32_t alignment[4];
  std::uint64_t unused[2];
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
constexpr std::uint64_t kMagic = 0x6d61746d756c0001u;
constexpr std::uint64_t kSplits[] = {1, 2, 4};

const char* name(cudaDataType_t type) {
  return type == CUDA_R_32F ? "fp32" : type == CUDA_R_16F ? "fp16" : "bf16";
}
std::string text(const MatrixLayout& m) {
  return concat(name(m.type), " ", m.rows, " x ", m.columns, " (leading ", m.leading, ")");
}

bool known(cudaDataType_t type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

void check_layout(const MatrixLayout& m, const char* which, std::uint64_t rows,
                  std::uint64_t columns) {
  if (!known(m.type)) unsupported(concat("type ", static_cast<int>(m.type), " of ", which));
  if (m.order != CUBLASLT_ORDER_COL) unsupported(concat(which, " is row-major"));
  if (m.rows != rows || m.columns != columns)
    invalid(concat(which, " is ", text(m), ", where ", rows, " x ", columns, " belong"));
  if (m.rows == 0 || m.columns == 0) invalid(concat(which, " is empty: ", text(m)));
  if (m.leading < static_cast<std::int64_t>(m.rows))
    invalid(concat(which, " is ", text(m), ": its leading dimension is less than its rows"));
}

// What does not depend on pointers.
void check_shapes(const MatmulDescriptor& e, const MatrixLayout& a, const MatrixLayout& b,
                  const MatrixLayout& c, const MatrixLayout& d) {
  const bool ta = e.transpose_a == CUBLAS_OP_T, tb = e.transpose_b == CUBLAS_OP_T;
  const std::uint64_t M = d.rows, N = d.columns, K = ta ? a.rows : a.columns;
  check_layout(a, "A", ta ? K : M, ta ? M : K);
  check_layout(b, "B", tb ? N : K, tb ? K : N);
  check_layout(c, "C", M, N);
  check_layout(d, "D", M, N);
  if (a.type != b.type || c.type != d.type || (d.type != a.type && d.type != CUDA_R_32F))
    unsupported(concat("types ", name(a.type), ", ", name(b.type), " to ", name(c.type), ", ",
                       name(d.type)));
  if (e.scale != CUDA_R_32F) unsupported("a scale type other than fp32");
  if (e.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F)
    unsupported("TF32 of matrices that are not fp32");
  const int bias_type = e.bias_type < 0 ? static_cast<int>(d.type) : e.bias_type;
  if (bias_type != static_cast<int>(d.type) && bias_type != static_cast<int>(a.type))
    unsupported("a bias of neither D's nor A's type");
  if ((e.epilogue & 128) != 0) {
    if (e.aux_leading % 8 != 0 || e.aux_leading < static_cast<std::int64_t>(M))
      invalid(concat("the auxiliary matrix has leading dimension ", e.aux_leading,
                     "; it must be a multiple of 8 and at least ", M));
    const int aux_type = e.aux_type < 0 ? static_cast<int>(d.type) : e.aux_type;
    if (aux_type != static_cast<int>(d.type)) unsupported("an auxiliary matrix not of D's type");
  }
}

std::uint64_t key_of(const MatmulDescriptor& e, const MatrixLayout& a, const MatrixLayout& d) {
  std::uint64_t key = static_cast<std::uint64_t>(e.epilogue);
  for (const std::uint64_t part :
       {std::uint64_t(e.compute), std::uint64_t(e.transpose_a), std::uint64_t(e.transpose_b),
        std::uint64_t(a.type), std::uint64_t(d.type)})
    key = key * 131 + part;
  return key;
}

std::uint64_t workspace_of(std::uint64_t split, const MatrixLayout& d) {
  return split == 1 ? 0 : split * d.rows * d.columns * sizeof(float);
}

// A stretch of memory of the stream's device, wholly inside of an allocation.
struct Range {
  const char *from, *to;
  const char* name;
};
Range checked_range(Machine& m, const Stream& stream, const void* data, std::size_t bytes,
                    const char* name, std::size_t alignment) {
  if (data == nullptr) invalid(concat(name, " is a null pointer"));
  const auto* p = static_cast<const char*>(data);
  const Allocation* found = m.memory.find(data);
  if (found == nullptr || !(found->live || found->pending) || found->device != stream.device ||
      p < found->address || p + bytes > found->address + found->bytes)
    invalid(concat(name, ", ", bytes, " bytes, starts at ", describe_address(m.memory, data),
                   "; the stream is of device ", stream.device));
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
    invalid(concat(name, " is not aligned to ", alignment, " bytes"));
  return {p, p + bytes, name};
}

std::size_t bytes_of(const MatrixLayout& m) {
  return ((m.columns - 1) * static_cast<std::size_t>(m.leading) + m.rows) * element_bytes(m.type);
}

struct Touched {
  std::vector<Range> inputs, outputs;  // the workspace, if there is one, last
  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(outputs.back().to - outputs.back().from);
  }
};
Touched check_memory(Machine& m, const Stream& stream, const MatmulProblem& p,
                     const Algorithm& algo, void* workspace, std::size_t workspace_bytes) {
  const MatmulDescriptor& e = p.descriptor;
  std::vector<Range> inputs{
      checked_range(m, stream, p.a_data, bytes_of(p.a), "A", algo.alignment[0]),
      checked_range(m, stream, p.b_data, bytes_of(p.b), "B", algo.alignment[1])};
  if (p.beta != 0 && p.c_data != p.d_data)
    inputs.push_back(checked_range(m, stream, p.c_data, bytes_of(p.c), "C", algo.alignment[2]));
  if (p.c_data == p.d_data && (p.c.leading != p.d.leading || p.c.type != p.d.type))
    invalid("C and D are the same memory with different layouts");
  std::vector<Range> outputs{
      checked_range(m, stream, p.d_data, bytes_of(p.d), "D", algo.alignment[3])};
  const auto bias_type = e.bias_type < 0 ? p.d.type : static_cast<cudaDataType_t>(e.bias_type);
  const bool bias_in = (e.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (bias_in || (e.epilogue & (16 | 256 | 512)) != 0) {
    const std::size_t length = e.epilogue & 512 ? p.columns() : p.rows();
    const std::size_t size = element_bytes(bias_type);
    (bias_in ? inputs : outputs)
        .push_back(checked_range(m, stream, e.bias, length * size, "the bias", size));
  }
  if ((e.epilogue & 128) != 0) {
    MatrixLayout aux = p.d;
    aux.leading = e.aux_leading;
    (e.epilogue & 64 ? inputs : outputs)
        .push_back(checked_range(m, stream, e.aux, bytes_of(aux), "the auxiliary matrix", 16));
  }
  if (algo.workspace > workspace_bytes)
    invalid(concat("the algorithm needs a workspace of ", algo.workspace, " bytes and gets ",
                   workspace_bytes));
  if (workspace_bytes > 0) {
    Range space = checked_range(m, stream, workspace, workspace_bytes, "the workspace", 256);
    // Something of it is always used; all of it would take its time.
    space.to = space.from +
               std::min<std::size_t>(workspace_bytes, std::max<std::size_t>(algo.workspace, 4096));
    outputs.push_back(space);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const Range& in : inputs)
      if (in.from < outputs[i].to && outputs[i].from < in.to)
        invalid(concat(outputs[i].name, " overlaps ", in.name));
    for (std::size_t j = 0; j < i; ++j)
      if (outputs[j].from < outputs[i].to && outputs[i].from < outputs[j].to)
        invalid(concat(outputs[i].name, " overlaps ", outputs[j].name));
  }
  return {inputs, outputs};
}

class MatmulOperation final : public Operation {
 public:
  MatmulOperation(const MatmulProblem& problem, const Touched& touched, void* workspace,
                  std::size_t workspace_bytes)
      : problem_(problem),
        touched_(touched),
        workspace_(workspace),
        workspace_bytes_(workspace_bytes) {}
  std::optional<std::string> run(Machine& m, Stream& stream) override {
    m.memory.open(stream.device, 0);
    tell_sanitizer();
    if (workspace_bytes_ > 0) poison(workspace_, workspace_bytes_);
    compute(problem_);
    return std::nullopt;
  }
  std::string what() const override {
    return concat("cublasLtMatmul of ", text(problem_.a), " and ", text(problem_.b));
  }
  std::unique_ptr<Operation> clone() const override {
    return std::make_unique<MatmulOperation>(*this);
  }

 private:
  // Whole stretches: between columns, too, where leading dimensions leave room.
  void tell_sanitizer() const {
    for (const Range& in : touched_.inputs)
      race::operation_reads(in.from, static_cast<std::size_t>(in.to - in.from));
    for (const Range& out : touched_.outputs)
      race::operation_writes(out.from, static_cast<std::size_t>(out.to - out.from));
  }

  MatmulProblem problem_;
  Touched touched_;
  void* workspace_;
  std::size_t workspace_bytes_;
};

Algorithm algorithm_of(const cublasLtMatmulAlgo_t* given, const MatmulDescriptor& e,
                       const MatrixLayout& a, const MatrixLayout& d) {
  Algorithm algo{kMagic, 1, 0, key_of(e, a, d), {1, 1, 1, 1}, {}};
  for (std::uint32_t& alignment : algo.alignment)
    alignment = static_cast<std::uint32_t>(element_bytes(a.type));
  if (given == nullptr) return algo;
  std::memcpy(&algo, given, sizeof algo);
  if (algo.magic != kMagic) invalid("an algorithm that no heuristic gave");
  if (algo.key != key_of(e, a, d))
    unsupported("the algorithm is for other types, transposes or another epilogue");
  algo.workspace = workspace_of(algo.split, d);
  return algo;
}

}  // namespace

// Candidates differ in how they split k: their results differ in rounding, as the real ones' do.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  *returned = 0;
  bool known = true;
  const cublasStatus_t status = library_call([&](Machine& m) {
    if (requested < 1) invalid("no algorithm is requested");
    check_shapes(*descriptor, *a, *b, *c, *d);
    if (!m.options.epilogues && descriptor->epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
        descriptor->epilogue != CUBLASLT_EPILOGUE_BIAS) {
      known = false;
      return;
    }
    for (const std::uint64_t split : kSplits) {
      const std::uint64_t workspace = workspace_of(split, *d);
      if (*returned == requested || workspace > preference->workspace) break;
      // Parts of k are added up out of place, in the type of computation.
      if (split > 1 && (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0)
        break;
      Algorithm algo{kMagic, split, workspace, key_of(*descriptor, *a, *d), {}, {}};
      std::copy_n(preference->alignment, 4, algo.alignment);
      cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
      result = {};
      std::memcpy(&result.algo, &algo, sizeof algo);
      result.workspaceSize = workspace;
      result.state = CUBLAS_STATUS_SUCCESS;
      result.wavesCount = 1;
    }
  });
  return known ? status : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  return library_call([&](Machine&) {
    check_shapes(*descriptor, *a, *b, *c, *d);
    const Algorithm algo = algorithm_of(algorithm, *descriptor, *a, *d);
    *result = {*algorithm, algo.workspace, CUBLAS_STATUS_SUCCESS, 1, {}};
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t handle_of_stream) {
  return library_call([&](Machine& m) {
    Stream& stream = m.stream(handle_of_stream);
    if (handle == nullptr || handle->device != stream.device)
      invalid("the handle is not of the stream's device");
    check_shapes(*descriptor, *a_layout, *b_layout, *c_layout, *d_layout);
    const Algorithm algo = algorithm_of(algorithm, *descriptor, *a_layout, *d_layout);
    MatmulProblem p{*descriptor, *a_layout, *b_layout, *c_layout, *d_layout};
    std::memcpy(&p.alpha, alpha, sizeof p.alpha);
    std::memcpy(&p.beta, beta, sizeof p.beta);
    p.a_data = a;
    p.b_data = b;
    p.c_data = c;
    p.d_data = d;
    p.split = static_cast<int>(algo.split);
    const Touched touched = check_memory(m, stream, p, algo, workspace, workspace_bytes);
    const std::size_t used = workspace_bytes > 0 ? touched.workspace_bytes() : 0;
    m.enqueue(stream, std::make_unique<MatmulOperation>(p, touched, workspace, used));
  });
}
