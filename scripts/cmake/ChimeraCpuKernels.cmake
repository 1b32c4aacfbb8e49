# chimera_cpu: the CPU backend. Every file of kernels/cpu that includes per_isa.h is a kernel file and is
# compiled once per instruction set, in a namespace of that name; the best set is chosen when the program runs.
set(kernel_folder ${PROJECT_SOURCE_DIR}/kernels/cpu)
set(kernel_names adamw attention_backward attention_forward column_sums cross_entropy dropout embedding gelu
    layernorm machine_limits sum_squares table)
list(TRANSFORM kernel_names PREPEND ${kernel_folder}/ OUTPUT_VARIABLE kernel_sources)
list(TRANSFORM kernel_sources APPEND .cpp)

set(isa_names baseline)
set(isa_baseline_flags)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND isa_names avx2 avx512)
  set(isa_avx2_flags -mavx2 -mfma)
  set(isa_avx512_flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512)
endif()

set(chimera_cpu_sources cpu/cpu_ops cpu/isa cpu/limits cpu/matmul
    bench/attention_bench bench/bench_case bench/gemm_bench bench/memory_bench)
list(TRANSFORM chimera_cpu_sources PREPEND ${PROJECT_SOURCE_DIR}/kernels/)
list(TRANSFORM chimera_cpu_sources APPEND .cpp)
add_library(chimera_cpu STATIC ${chimera_cpu_sources})
chimera_unity(chimera_cpu ${chimera_cpu_sources})
target_link_libraries(chimera_cpu PUBLIC chimera_ops PRIVATE OneDNN::dnnl)
target_include_directories(chimera_cpu INTERFACE ${PROJECT_SOURCE_DIR}/kernels)
if(isa_names MATCHES avx2)
  target_compile_definitions(chimera_cpu PRIVATE CHIMERA_X86_ISAS)
endif()

foreach(isa ${isa_names})
  add_library(chimera_cpu_${isa} OBJECT ${kernel_sources})
  target_link_libraries(chimera_cpu_${isa} PRIVATE chimera_options)
  target_compile_definitions(chimera_cpu_${isa} PRIVATE CHIMERA_ISA=${isa})
  # No -ffast-math: infinities and NaN must pass through, and the order of sums is written, not chosen.
  target_compile_options(chimera_cpu_${isa} PRIVATE -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast
    -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables -Wno-psabi ${isa_${isa}_flags})
  target_sources(chimera_cpu PRIVATE $<TARGET_OBJECTS:chimera_cpu_${isa}>)
endforeach()

# chimera_gpu_bench: the GPU's ops against the CPU's and the machine's limits (kernels/bench). Whose GPU, the property
# CHIMERA_EMULATED of the program says.
set(gpu_bench_sources gpu_bench op_cases op_cases_memory op_cases_products op_check)
list(TRANSFORM gpu_bench_sources PREPEND ${PROJECT_SOURCE_DIR}/kernels/bench/)
list(TRANSFORM gpu_bench_sources APPEND .cpp)
add_library(chimera_gpu_bench STATIC ${gpu_bench_sources})
chimera_unity(chimera_gpu_bench ${gpu_bench_sources})
target_link_libraries(chimera_gpu_bench PUBLIC chimera_cpu
  "$<IF:$<BOOL:$<TARGET_PROPERTY:CHIMERA_EMULATED>>,chimera_cuda_emulated,chimera_cuda>" PRIVATE chimera_options)
