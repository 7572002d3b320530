import Glibc

/// Where a command finds the configuration if `--config` does not name one.
package enum ConfigurationLookup {
  /// The folder of the command comes first, as for a trial; then the place of an installed service.
  package static let places = ["./sallyport.conf", "/etc/sallyport/sallyport.conf"]

  /// The first of these files that exists. A file that exists and can't be read is taken too: another one in its place
  /// would surprise. nil if none exists.
  package static func find(among places: [String] = places) -> String? {
    places.first { place in
      var status = stat()
      return lstat(place, &status) == 0 || (errno != ENOENT && errno != ENOTDIR)
    }
  }

  /// What a command says that finds none. `starting`: for `run`, beside which two commands start a proxy without a file.
  package static func fault(starting: Bool) -> String {
    var hints = ["name the configuration file with --config"]
    if starting {
      hints += [
        "to try sallyport out: `sallyport demo` needs no file, and makes its certificates",
        "in front of one application: `sallyport proxy` takes options in place of a file",
      ]
    }
    return "error: there is no \(places.joined(separator: " and no "))\n"
      + hints.map { "    hint: \($0)\n" }.joined()
  }
}
