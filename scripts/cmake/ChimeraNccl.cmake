# chimera_use_nccl(<target>): messages by NCCL from kernels/cuda/comm/nccl_transport.cpp, or the stub that says how to
# get it.
set(CHIMERA_NCCL AUTO CACHE STRING "Messages between GPUs by NCCL: ON, OFF, or AUTO (where NCCL 2.18 or newer is found)")
set_property(CACHE CHIMERA_NCCL PROPERTY STRINGS AUTO ON OFF)

set(nccl_found OFF)
if(CHIMERA_NCCL)
  set(places HINTS ${CHIMERA_NCCL_ROOT} $ENV{NCCL_ROOT} $ENV{NCCL_HOME} ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_ROOT})
  find_path(CHIMERA_NCCL_INCLUDE nccl.h ${places} PATH_SUFFIXES include HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC "Folder of nccl.h")
  find_library(CHIMERA_NCCL_LIBRARY NAMES nccl libnccl.so.2 ${places} PATH_SUFFIXES lib lib64
               HINTS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda/lib DOC "NCCL's library")
  if(CHIMERA_NCCL_INCLUDE AND CHIMERA_NCCL_LIBRARY)
    file(STRINGS ${CHIMERA_NCCL_INCLUDE}/nccl.h lines REGEX "#define NCCL_(MAJOR|MINOR) ")
    string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" nccl_version "${lines}")
    if(nccl_version VERSION_GREATER_EQUAL 2.18)
      set(nccl_found ON)
    endif()
  endif()
  if(NOT nccl_found AND NOT CHIMERA_NCCL STREQUAL AUTO)
    message(FATAL_ERROR "CHIMERA_NCCL is ON and NCCL 2.18 or newer was not found (nccl.h: ${CHIMERA_NCCL_INCLUDE}, library: "
                        "${CHIMERA_NCCL_LIBRARY}); install libnccl-dev, or set CHIMERA_NCCL_ROOT to a folder that has "
                        "include/nccl.h and lib/libnccl.so.2, or CHIMERA_NCCL to OFF")
  endif()
endif()

function(chimera_use_nccl target)
  if(nccl_found)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/kernels/cuda/comm/nccl_transport.cpp)
    target_include_directories(${target} SYSTEM PRIVATE ${CHIMERA_NCCL_INCLUDE})
    target_link_libraries(${target} PRIVATE ${CHIMERA_NCCL_LIBRARY})
    message(STATUS "Messages between GPUs: NCCL ${nccl_version}")
  else()
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/kernels/cuda/comm/no_nccl/no_nccl.cpp)
    message(STATUS "Messages between GPUs: none but copies and MPI (CHIMERA_NCCL=${CHIMERA_NCCL})")
  endif()
endfunction()
