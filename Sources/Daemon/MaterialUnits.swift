import Bytes
import Crypto
import Envelope
import Observability
import Proxy
import Signature
import TLS
import UpstreamAuth

/// What was last loaded into each unit of material: one file, or files that only count together, such as a certificate with
/// its key.
///
/// A reload takes each unit by itself: a broken file keeps the content of its own unit and stops no other one, so that a
/// revocation never waits for the repair of another file. A unit that was never loaded has nothing to keep: it refuses a
/// start, or a configuration that names it newly.
struct MaterialUnits: Sendable {
  struct Pair: Hashable {
    var source: CertificateSource
    var passwords: MaterialReference?
  }
  struct Anchors: Hashable {
    var file: MaterialReference
    var passwords: MaterialReference?
  }
  struct Pins: Hashable {
    var source: PinSource
    var mode: PinningMode
    var passwords: MaterialReference?
  }
  struct Envelope: Hashable {
    var files: EnvelopeSettings.KeyFiles
    var suite: EnvelopeSuite
  }
  struct Signing: Hashable {
    var key: SignatureSettings.Key
    var purpose: SignatureKey.Purpose
  }

  var passwords: [MaterialReference: [SecretBytes]] = [:]
  var pairs: [Pair: CertifiedKey] = [:]
  var authorities: [Anchors: [Certificate]] = [:]
  var parameters: [MaterialReference: DHParameters] = [:]
  var ticketKeys: [MaterialReference: TicketKey] = [:]
  var pins: [Pins: [Pin]] = [:]
  /// The files of folders of pins. Each file is a unit of its own.
  var folders: [PinSource: [String]] = [:]
  var responses: [MaterialReference: SecretBytes] = [:]
  var users: [MaterialReference: UserFile] = [:]
  var envelopes: [Envelope: EnvelopeKeys.Pair] = [:]
  var signatures: [Signing: SignatureKey] = [:]
  /// What requests and orders read again each time, and what was read once to find its faults.
  var trials: Set<MaterialReference> = []
}

extension MaterialLoader {
  /// Loads a unit. If it can't be loaded, returns the content that serves until now, and notes that the files have no
  /// effect; nil if there is none, and then the diagnostics have the reason.
  mutating func unit<Key: Hashable, Content>(
    _ slot: WritableKeyPath<MaterialUnits, [Key: Content]>, _ key: Key, _ files: UnitFiles,
    _ load: (inout MaterialLoader) -> Content?
  ) -> Content? {
    let told = diagnostics.count
    guard begin(files) else { return nil }
    if let content = load(&self) {
      units[keyPath: slot][key] = content
      return content
    }
    guard let content = former.units[keyPath: slot][key] else { return nil }
    units[keyPath: slot][key] = content
    keep(files, .kept, since: told)
    return content
  }

  /// The same for one file and a fault of its own.
  mutating func unit<Content>(
    _ slot: WritableKeyPath<MaterialUnits, [MaterialReference: Content]>, _ kind: MaterialKind,
    _ file: MaterialReference, _ load: () throws(MaterialError) -> Content
  ) -> Content? {
    unit(slot, file, UnitFiles(kind, file)) { $0.attempt(load) }
  }

  /// Reads once what requests read again each time. A fault that comes with a reload stops nothing else.
  mutating func tryUnit(_ kind: MaterialKind, _ file: MaterialReference, _ load: (inout MaterialLoader) -> Void) {
    let told = diagnostics.count
    guard begin(UnitFiles(kind, file)) else { return }
    load(&self)
    let isGood = !diagnostics[told...].contains { $0.severity == .error }
    guard isGood || former.units.trials.contains(file) else { return }
    units.trials.insert(file)
    if !isGood { keep(UnitFiles(kind, file), .readByRequests, since: told) }
  }

  /// Turns the errors since that count of diagnostics into what is told of a unit that keeps its content. Without one, the
  /// unit was told at another place.
  mutating func keep(_ files: UnitFiles, _ use: StaleMaterial.Use, since told: Int, hasChanged: Bool = false) {
    let faults = diagnostics[told...].filter { $0.severity == .error }
    diagnostics[told...].removeAll { $0.severity == .error }
    if let fault = faults.first { keep(files, use, fault, hasChanged: hasChanged) }
  }

  /// `hasChanged`: something is out of effect, however the files look.
  mutating func keep(_ files: UnitFiles, _ use: StaleMaterial.Use, _ fault: Diagnostic, hasChanged: Bool) {
    let known = former.stale.first { $0.isOf(files.kind.noun, files.names) }
    let isSame =
      !hasChanged && !files.paths.isEmpty && files.paths.allSatisfy { seen.agree(with: former.files, on: $0) }
    // Root has read it at the start, and nothing says that it is another file now: a standing warning names it.
    if known == nil, isSame, files.paths.contains(where: { seen.isForbidden($0) }) { return }
    let state: StaleMaterial.State = known?.state == .changed || !isSame ? .changed : .unread
    let new = StaleMaterial(
      kind: files.kind.noun, files: files.names, paths: files.paths, use: use, state: state, place: fault.location,
      reason: fault.message,
      hint: fault.hint)
    if !stale.contains(where: { $0.isOf(new.kind, new.files) }) { stale.append(new) }
  }
}

extension MaterialLoader {
  /// The units without effect: those of this pass, and those of blocks that keep what they have.
  var everyStale: [StaleMaterial] {
    guard former.isOfSameConfiguration else { return stale }
    return stale + former.stale.filter { !tried.contains([$0.kind] + $0.files) }
  }
}

/// The files of a unit, for what is told of it.
struct UnitFiles {
  let kind: MaterialKind
  let names: [String]
  /// Those that can be watched.
  let paths: [String]
  var identity: [String] { [kind.noun] + names }

  init(_ kind: MaterialKind, _ files: MaterialReference...) { self.init(kind, files) }

  init(_ kind: MaterialKind, _ files: [MaterialReference]) {
    self.kind = kind
    names = files.map(\.description)
    paths = files.compactMap { try? $0.resolvedPath(expecting: kind) }
  }

  init(_ pins: PinSource) {
    kind = .pin
    names = [pins.spelling]
    paths = [pins.path].compactMap { $0 }
  }
}
