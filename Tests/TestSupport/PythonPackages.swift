import Foundation

/// Packages of PyPI that Debian lacks. `Tests/run` installs them.
package enum PythonPackages {
  /// The interpreter that has them.
  package static let python =
    ProcessInfo.processInfo.environment["SALLYPORT_TEST_PYTHON"] ?? "\(checkout)/.build/python/bin/python3"
}
