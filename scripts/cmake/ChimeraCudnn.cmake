# chimera_use_cudnn(<target>): attention by cuDNN from kernels/cuda/attention/cudnn, or the stub without it.
# Only headers are needed: libcudnn is found when the program runs.
set(CHIMERA_CUDNN AUTO CACHE STRING "Attention by cuDNN: ON, OFF, or AUTO (where its headers and cudnn-frontend are found)")
set_property(CACHE CHIMERA_CUDNN PROPERTY STRINGS AUTO ON OFF)

set(cudnn_found OFF)
if(CHIMERA_CUDNN)
  find_path(CHIMERA_CUDNN_INCLUDE cudnn.h HINTS $ENV{CUDNN_ROOT}/include $ENV{CUDNN_PATH}/include ${CUDAToolkit_INCLUDE_DIRS}
            DOC "Folder of cudnn.h (cuDNN 9)")
  find_path(CHIMERA_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h  # where scripts/install_deps.sh cuda puts it
            HINTS $ENV{CHIMERA_DEPS}/cudnn-frontend/include ${PROJECT_BINARY_DIR}/_deps/cudnn-frontend/include
                  $ENV{XDG_CACHE_HOME}/chimera/cudnn-frontend/include $ENV{HOME}/.cache/chimera/cudnn-frontend/include
            DOC "Folder of cudnn_frontend.h")
  if(CHIMERA_CUDNN_INCLUDE AND CHIMERA_CUDNN_FRONTEND_INCLUDE)
    set(cudnn_found ON)
  elseif(NOT CHIMERA_CUDNN STREQUAL AUTO)
    message(FATAL_ERROR "CHIMERA_CUDNN is ON; cudnn.h: ${CHIMERA_CUDNN_INCLUDE}, cudnn_frontend.h: "
                        "${CHIMERA_CUDNN_FRONTEND_INCLUDE}. scripts/install_deps.sh cuda gets the second; set "
                        "CHIMERA_CUDNN_INCLUDE and CHIMERA_CUDNN_FRONTEND_INCLUDE to their folders, or CHIMERA_CUDNN to OFF")
  endif()
endif()

function(chimera_use_cudnn target)
  if(cudnn_found)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/kernels/cuda/attention/cudnn/attention_graphs.cpp)
    target_include_directories(${target} SYSTEM PRIVATE ${CHIMERA_CUDNN_FRONTEND_INCLUDE} ${CHIMERA_CUDNN_INCLUDE})
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    message(STATUS "Attention: cuDNN, beside our own kernels")
  else()
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/kernels/cuda/attention/no_cudnn/no_cudnn.cpp)
    message(STATUS "Attention: our own kernels (CHIMERA_CUDNN=${CHIMERA_CUDNN})")
  endif()
endfunction()
