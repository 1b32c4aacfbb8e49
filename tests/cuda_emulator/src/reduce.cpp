// The arithmetic of collectives. Sums go around a ring and are rounded at each rank, as NCCL's: the
// order depends on the element's place, not on time.
#include <algorithm>
#include <cstring>

#include "clique.h"
#include "emulator/half_bits.h"

namespace emulator {
namespace {

template <class T>
T combined(T a, T b, ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
    case ncclAvg: return static_cast<T>(a + b);
    case ncclProd: return static_cast<T>(a * b);
    case ncclMax: return std::max(a, b);
    case ncclMin: return std::min(a, b);
  }
  return a;
}

// Element `i` over all ranks; `count` elements in all.
template <class T, class Wide, class Load, class Store>
void reduce(const std::vector<const void*>& from, std::size_t i, std::size_t count, void* out,
            std::size_t at, ncclRedOp_t op, Load load, Store store) {
  const std::size_t n = from.size();
  const std::size_t chunk = i * n / std::max<std::size_t>(count, 1);
  Wide sum = load(static_cast<const T*>(from[(chunk + 1) % n])[i]);
  for (std::size_t step = 2; step <= n; ++step) {
    const Wide next = load(static_cast<const T*>(from[(chunk + step) % n])[i]);
    sum = load(store(combined(sum, next, op)));
  }
  if (op == ncclAvg) sum = static_cast<Wide>(sum / static_cast<Wide>(n));
  static_cast<T*>(out)[at] = store(sum);
}

template <class T>
void reduce_plain(const std::vector<const void*>& from, std::size_t i, std::size_t count, void* out,
                  std::size_t at, ncclRedOp_t op) {
  const auto same = [](T x) { return x; };
  reduce<T, T>(from, i, count, out, at, op, same, same);
}

// Element i of the sources into element `at` of out.
void reduce_element(const std::vector<const void*>& from, std::size_t i, std::size_t count,
                    void* out, std::size_t at, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8: return reduce_plain<std::int8_t>(from, i, count, out, at, op);
    case ncclUint8: return reduce_plain<std::uint8_t>(from, i, count, out, at, op);
    case ncclInt32: return reduce_plain<std::int32_t>(from, i, count, out, at, op);
    case ncclUint32: return reduce_plain<std::uint32_t>(from, i, count, out, at, op);
    case ncclInt64: return reduce_plain<std::int64_t>(from, i, count, out, at, op);
    case ncclUint64: return reduce_plain<std::uint64_t>(from, i, count, out, at, op);
    case ncclFloat32: return reduce_plain<float>(from, i, count, out, at, op);
    case ncclFloat64: return reduce_plain<double>(from, i, count, out, at, op);
    case ncclFloat16:
      return reduce<std::uint16_t, float>(from, i, count, out, at, op, float_from_fp16,
                                          fp16_from_float);
    case ncclBfloat16:
      return reduce<std::uint16_t, float>(from, i, count, out, at, op, float_from_bf16,
                                          bf16_from_float);
  }
}

}  // namespace

void carry_out_collective(const std::vector<NcclCall*>& calls) {
  const NcclCall& first = *calls[0];
  const std::size_t n = calls.size(), bytes = first.count * element_bytes(first.type);
  const bool scattered = first.kind == CallKind::ReduceScatter;
  const bool reduces =
      scattered || first.kind == CallKind::AllReduce || first.kind == CallKind::Reduce;
  // Results are made aside: calls may work in place.
  std::vector<char> whole(bytes * (scattered || first.kind == CallKind::AllGather ? n : 1));
  if (reduces) {
    std::vector<const void*> from;
    for (const NcclCall* call : calls) from.push_back(call->from);
    const std::size_t elements = first.count * (scattered ? n : 1);
    for (std::size_t i = 0; i < elements; ++i)
      reduce_element(from, i, elements, whole.data(), i, first.type, first.op);
  } else if (first.kind == CallKind::AllGather) {
    for (std::size_t r = 0; r < n; ++r)
      if (bytes > 0) std::memcpy(whole.data() + r * bytes, calls[r]->from, bytes);
  } else if (bytes > 0) {
    std::memcpy(whole.data(), calls[static_cast<std::size_t>(first.root)]->from, bytes);
  }
  for (std::size_t r = 0; r < n; ++r) {
    if (first.kind == CallKind::Reduce && r != static_cast<std::size_t>(first.root)) continue;
    const char* source = whole.data() + (scattered ? r * bytes : 0);
    const std::size_t length = scattered ? bytes : whole.size();
    if (length > 0) std::memcpy(calls[r]->to, source, length);
  }
}

}  // namespace emulator
