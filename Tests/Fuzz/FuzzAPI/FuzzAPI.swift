import Features
import Forward
import FuzzSupport
import Traffic
import Transport
import Upstream

/// A path of the API, and behind the first line feed a body.
///
/// Holds: a path is what it says, or nothing; a body is read within its bounds, or refused with a reason.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = [UInt8](UnsafeBufferPointer(start: start, count: count))
  let line = bytes.prefix { $0 != 0x0A }
  let text = String(decoding: line, as: UTF8.self)
  let path = APIPath(text, objects: objects)
  if case .server(let name, let id, _) = path {
    require(text.hasSuffix("/\(id)") || text.hasSuffix("/") || text.contains(name))
  }
  if case .denial(let fingerprint) = path { require(fingerprint.count == 32 || fingerprint.count == 20) }
  // A slash at the end changes nothing.
  if !text.hasSuffix("/") { require(APIPath(text + "/", objects: objects) == path) }
  let body = Array(bytes.dropFirst(line.count + 1))
  do {
    let patch = try APIServerBody(body).patch
    require(patch.weight.map { (1...65_535).contains($0) } ?? true)
    require(patch.failTimeout.map { $0 >= 0 } ?? true)
  } catch {
    require((400...499).contains(error.status) && !error.text.isEmpty)
  }
  // The file of denials, and what a process hands over.
  if let entries = DenialState.entries(body) {
    require(entries.allSatisfy { [20, 32].contains($0.fingerprint.count) })
    require(DenialState.entries(Array(DenialState.text(entries).utf8)) == entries)
  }
  for isOfStream in [false, true] {
    do {
      let added = try APINewServerBody(body, isOfStream: isOfStream)
      require((1...65_535).contains(added.settings.weight) && added.address.port != 0)
    } catch {
      require((400...499).contains(error.status) && !error.text.isEmpty)
    }
  }
  do {
    let denial = try APIDenialBody(body)
    require(denial.seconds > 0 && (denial.fingerprint.count == 32 || denial.fingerprint.count == 20))
  } catch {
    require((400...499).contains(error.status) && !error.text.isEmpty)
  }
  do {
    let level = try APILogLevelBody(body)
    require((1...86_400).contains(level.seconds))
  } catch {
    require((400...499).contains(error.status) && !error.text.isEmpty)
  }
  return 0
}

private let objects = Features.all.directives[APIFeatureList.self].objects
