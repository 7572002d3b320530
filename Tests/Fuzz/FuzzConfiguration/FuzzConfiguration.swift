import Configuration
import FuzzSupport
import Observability
import Language

/// A configuration; what follows the first 0xFF byte is a file that it may include as `inc`.
///
/// Holds: it ends; there are settings exactly where there is no error; each problem has a place that can be; what breaks
/// the language comes first and all else after it, each in order within a file; the same bytes give the same problems.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = [UInt8](UnsafeBufferPointer(start: start, count: count))
  let cut = bytes.firstIndex(of: 0xFF) ?? bytes.count
  let main = Array(bytes[..<cut])
  let included = Array(bytes[cut...].dropFirst())
  let files = SourceFiles(
    read: { path, _ in
      switch path {
      case "main.conf": .success(main)
      case "inc": .success(included)
      default: .failure(.init(reason: "no such file or directory", isMissing: true))
      }
    }, expand: { _ in .success(["inc"]) })
  let first = Configuration.load(bytes: main, fileName: "main.conf", files: files)
  require((first.settings == nil) == first.diagnostics.contains { $0.severity == .error })
  var last: SourceLocation?, steps = 0
  for place in first.diagnostics.compactMap(\.location) {
    require(place.line > 0 && place.column > 0 && ["main.conf", "inc"].contains(place.file))
    if let last, last.file == place.file, (last.line, last.column) > (place.line, place.column) { steps += 1 }
    require(steps <= 1)
    last = place
  }
  let second = Configuration.load(bytes: main, fileName: "main.conf", files: files)
  require(first.diagnostics == second.diagnostics)
  return 0
}
