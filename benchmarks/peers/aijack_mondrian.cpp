// Opens AIJack's Mondrian to Python as its own module does, without the parts that need Boost.
#include "aijack/defense/kanonymity/core/anonymizer.h"
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;

PYBIND11_MODULE(aijack_mondrian, module) {
  py::class_<DataFrame>(module, "DataFrame")
      .def(py::init<vector<string>, map<string, bool>, int>())
      .def("insert_continuous_column", &DataFrame::insert_continuous_column)
      .def("insert_categorical_column", &DataFrame::insert_categorical_column);
  py::class_<Mondrian>(module, "Mondrian")
      .def(py::init<int>())
      .def("get_final_partitions", &Mondrian::get_final_partitions)
      .def("anonymize", &Mondrian::anonymize);
}
