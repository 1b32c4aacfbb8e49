# chimera_cpu: the CPU backend. Every file of kernels/cpu/vector is compiled once per instruction set, in a namespace of
# that name; the best set is chosen when the program runs. The folder is the list: file x.cpp defines add_x.
set(kernel_folder ${PROJECT_SOURCE_DIR}/kernels/cpu)
file(GLOB kernel_sources CONFIGURE_DEPENDS ${kernel_folder}/vector/*.cpp)
foreach(source ${kernel_sources})
  get_filename_component(name ${source} NAME_WE)
  string(APPEND table_declarations "void add_${name}(Kernels&);\n")
  string(APPEND table_calls "  add_${name}(k);\n")
endforeach()
configure_file(${kernel_folder}/vector/table.cpp.in ${PROJECT_BINARY_DIR}/kernels/table.cpp @ONLY)
list(APPEND kernel_sources ${PROJECT_BINARY_DIR}/kernels/table.cpp)

set(isa_names baseline)
set(isa_baseline_flags)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND isa_names avx2 avx512)
  set(isa_avx2_flags -mavx2 -mfma)
  set(isa_avx512_flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512)
endif()

file(GLOB chimera_cpu_sources CONFIGURE_DEPENDS ${kernel_folder}/*.cpp)
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
  target_include_directories(chimera_cpu_${isa} PRIVATE ${kernel_folder} ${kernel_folder}/vector)
  target_compile_definitions(chimera_cpu_${isa} PRIVATE CHIMERA_ISA=${isa})
  # No -ffast-math: infinities and NaN must pass through, and the order of sums is written, not chosen.
  target_compile_options(chimera_cpu_${isa} PRIVATE -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast
    -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables -Wno-psabi ${isa_${isa}_flags})
  target_sources(chimera_cpu PRIVATE $<TARGET_OBJECTS:chimera_cpu_${isa}>)
endforeach()

# Benchmarks, for the commands of `chimera bench`, kernels/bench and their tests alone: chimera_bench_kernels times the
# CPU's ops; chimera_gpu_bench the GPU's, against the CPU's and the machine's limits. Whose GPU, the property
# CHIMERA_EMULATED of the program says.
set(bench_folder ${PROJECT_SOURCE_DIR}/kernels/bench)
file(GLOB bench_sources CONFIGURE_DEPENDS ${bench_folder}/*.cpp)
set(gpu_bench_sources ${bench_sources})
list(FILTER gpu_bench_sources INCLUDE REGEX "/(gpu_|op_)[a-z_]*\\.cpp$")
list(FILTER bench_sources EXCLUDE REGEX "/((gpu_|op_)[a-z_]*|main)\\.cpp$")
add_library(chimera_bench_kernels STATIC ${bench_sources})
target_link_libraries(chimera_bench_kernels PUBLIC chimera_cpu PRIVATE chimera_options)
add_library(chimera_gpu_bench STATIC ${gpu_bench_sources})
chimera_unity(chimera_gpu_bench ${gpu_bench_sources})
target_link_libraries(chimera_gpu_bench PUBLIC chimera_bench_kernels
  "$<IF:$<BOOL:$<TARGET_PROPERTY:CHIMERA_EMULATED>>,chimera_cuda_emulated,chimera_cuda>" PRIVATE chimera_options)
