# Build type, language level, warnings and sanitizers, carried by the interface target chimera_options.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")   # checks are never compiled out; kernels/cpu adds its own flags

option(CHIMERA_WERROR "Treat warnings as errors" OFF)
set(CHIMERA_SANITIZE "" CACHE STRING "Sanitizers, such as address,undefined or thread")

find_program(CHIMERA_CCACHE ccache)
if(CHIMERA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CHIMERA_CCACHE})
endif()

add_library(chimera_options INTERFACE)
target_include_directories(chimera_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(chimera_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-Wno-missing-field-initializers>"
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${CHIMERA_WERROR}>>:-Werror>)
if(CHIMERA_SANITIZE)
  target_compile_options(chimera_options INTERFACE  # nvcc passes none of these on
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CHIMERA_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g1>"
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)  # g++ 12 finds false ones in <regex> with the address sanitizer
  target_link_options(chimera_options INTERFACE -fsanitize=${CHIMERA_SANITIZE})
endif()
