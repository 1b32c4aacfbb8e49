# chimera_unity(TARGET SOURCE...): with CHIMERA_UNITY, the files of one folder are compiled as one: what they include is
# read once. So the names in their anonymous namespaces differ within a folder.
function(chimera_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CHIMERA_UNITY} UNITY_BUILD_MODE GROUP)
  if(CHIMERA_UNITY)  # to the compiler, a source file is a header here: it warns of members of file-local types
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME group)
    set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP ${group})
    # By themselves: schedules, which have functions of the same names on purpose, and what replaces operator new.
    if(group STREQUAL schedules OR source MATCHES "/allocation_test\\.cpp$")
      set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# chimera_layer(NAME DEPENDS target... PRIVATE target...): the target chimera_NAME from the sources of src/NAME and its
# folders, but for those that are chosen elsewhere (mpi, no_*). Its public link line is what the layer may include;
# PRIVATE libraries stay in its source files. Its files include each other by their path in src/NAME.
function(chimera_layer name)
  cmake_parse_arguments(LAYER "" "" "DEPENDS;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(mpi|no_[a-z]+)/")
  if(NOT sources)
    message(FATAL_ERROR "The layer ${name} has no sources in src/${name}")
  endif()
  add_library(chimera_${name} STATIC ${sources})
  chimera_unity(chimera_${name} ${sources})
  target_include_directories(chimera_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/${name})
  target_link_libraries(chimera_${name} PUBLIC ${LAYER_DEPENDS} chimera_options PRIVATE ${LAYER_PRIVATE})
endfunction()

# chimera_tests(FOLDER DEPENDS target... LABELS label...): one executable from tests/FOLDER/*.cpp, each Catch2
# case a ctest of its own, named "FOLDER: case". Its working directory is the build folder of the tests.
function(chimera_tests folder)
  cmake_parse_arguments(TESTS "" "TIMEOUT" "DEPENDS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "There are no tests in tests/${folder}")
  endif()
  string(REPLACE "/" "_" target "test_${folder}")
  add_executable(${target} ${sources})
  chimera_unity(${target} ${sources})
  target_link_libraries(${target} PRIVATE chimera_test_support ${TESTS_DEPENDS} chimera_options)
  if(NOT TESTS_TIMEOUT)
    set(TESTS_TIMEOUT 300)
  endif()
  catch_discover_tests(${target} TEST_PREFIX "${folder}: "
    PROPERTIES TIMEOUT ${TESTS_TIMEOUT} LABELS "${folder};${TESTS_LABELS}" SKIP_RETURN_CODE 77)
endfunction()
