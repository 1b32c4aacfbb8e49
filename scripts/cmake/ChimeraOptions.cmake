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

# On for the compiler that CI has, whose warnings are known; the same for users and tests, so that neither rebuilds.
set(werror OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\." AND NOT CMAKE_CXX_FLAGS)
  set(werror ON)
endif()
option(CHIMERA_WERROR "Treat warnings as errors (default: ON with g++ 12 and no flags of one's own)" ${werror})
option(CHIMERA_UNITY "Compile the files of a folder as one: a build from nothing takes a third of the time" ON)
set(CHIMERA_SANITIZE "" CACHE STRING "Sanitizers, such as address,undefined or thread")
if(CHIMERA_SANITIZE MATCHES "address")  # its tests run for less time than they are compiled; kernels keep their -O3
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
endif()

find_program(CHIMERA_CCACHE ccache)
if(CHIMERA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CHIMERA_CCACHE})
endif()

include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=mold CHIMERA_HAS_MOLD)  # a faster linker, where it is installed

add_library(chimera_options INTERFACE)
if(CHIMERA_HAS_MOLD)
  target_link_options(chimera_options INTERFACE $<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
endif()
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
