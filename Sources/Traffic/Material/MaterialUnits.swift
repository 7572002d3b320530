package import Bytes
package import Crypto
package import Observability
package import TLS

/// A unit of material: one file, or files that only count together, such as a certificate with its key. The value names it.
package protocol MaterialUnit: Hashable, Sendable {
  /// What is loaded from its files.
  associatedtype Content: Sendable
}

/// What was last loaded into each unit of material.
///
/// A reload takes each unit by itself: a broken file keeps the content of its own unit and stops no other one, so that a
/// revocation never waits for the repair of another file. A unit that was never loaded has nothing to keep: it refuses a
/// start, or a configuration that names it newly.
package struct MaterialUnits: Sendable {
  private var tables: [ObjectIdentifier: any Sendable] = [:]

  package init() {}

  package subscript<Unit: MaterialUnit>(_ unit: Unit) -> Unit.Content? {
    get { all(Unit.self)[unit] }
    set {
      // Taken out while it is changed, or it would be copied for each unit.
      var table = tables.removeValue(forKey: ObjectIdentifier(Unit.self)) as? [Unit: Unit.Content] ?? [:]
      table[unit] = newValue
      tables[ObjectIdentifier(Unit.self)] = table
    }
  }

  /// The units of one kind.
  package func all<Unit: MaterialUnit>(_ kind: Unit.Type) -> [Unit: Unit.Content] {
    tables[ObjectIdentifier(kind)] as? [Unit: Unit.Content] ?? [:]
  }
}

/// The files of passwords, of parameters, and the other units of TLS.
package enum TLSUnit {
  package struct Passwords: MaterialUnit {
    package typealias Content = [SecretBytes]
    package var file: MaterialReference
    package init(file: MaterialReference) { self.file = file }
  }
  package struct Pair: MaterialUnit {
    package typealias Content = CertifiedKey
    package var source: CertificateSource
    package var passwords: MaterialReference?
    package init(source: CertificateSource, passwords: MaterialReference?) {
      self.source = source
      self.passwords = passwords
    }
  }
  package struct Anchors: MaterialUnit {
    package typealias Content = [Certificate]
    package var file: MaterialReference
    package var passwords: MaterialReference?
  }
  package struct Parameters: MaterialUnit {
    package typealias Content = DHParameters
    package var file: MaterialReference
    package init(file: MaterialReference) { self.file = file }
  }
  package struct Ticket: MaterialUnit {
    package typealias Content = TicketKey
    package var file: MaterialReference
    package init(file: MaterialReference) { self.file = file }
  }
  package struct Pins: MaterialUnit {
    package typealias Content = [Pin]
    package var source: PinSource
    package var mode: PinningMode
    package var passwords: MaterialReference?
  }
  /// The files of a folder of pins. Each file is a unit of its own.
  package struct PinFolder: MaterialUnit {
    package typealias Content = [String]
    package var source: PinSource
    package init(source: PinSource) { self.source = source }
  }
  package struct Response: MaterialUnit {
    package typealias Content = SecretBytes
    package var file: MaterialReference
    package init(file: MaterialReference) { self.file = file }
  }
}

/// What requests and orders read again each time, and what was read once to find its faults.
private struct Trial: MaterialUnit {
  typealias Content = Bool
  var file: MaterialReference
}

extension MaterialLoader {
  /// Loads a unit. If it can't be loaded, returns the content that serves until now, and notes that the files have no
  /// effect; nil if there is none, and then the diagnostics have the reason.
  ///
  /// `reloads`: `ssl_reload` of its block. Where it is off, the content stays until the configuration is read again.
  package mutating func unit<Unit: MaterialUnit>(
    _ unit: Unit, _ files: UnitFiles, reloads: Bool = true, _ load: (inout MaterialLoader) -> Unit.Content?
  ) -> Unit.Content? {
    if !reloads, former.isOfSameConfiguration, let content = former.units[unit] { return content }
    let told = diagnostics.count
    guard begin(files) else { return nil }
    if let content = load(&self) {
      units[unit] = content
      return content
    }
    guard let content = former.units[unit] else { return nil }
    units[unit] = content
    keep(files, .kept, since: told)
    return content
  }

  /// The same for one file and a fault of its own.
  package mutating func unit<Unit: MaterialUnit>(
    _ unit: Unit, _ kind: MaterialKind, _ file: MaterialReference, reloads: Bool = true,
    _ load: () throws(MaterialError) -> Unit.Content
  ) -> Unit.Content? {
    self.unit(unit, UnitFiles(kind, file), reloads: reloads) { $0.attempt(load) }
  }

  /// Reads once what requests read again each time. A fault that comes with a reload stops nothing else.
  package mutating func tryUnit(_ kind: MaterialKind, _ file: MaterialReference, _ load: (inout MaterialLoader) -> Void)
  {
    let told = diagnostics.count
    guard begin(UnitFiles(kind, file)) else { return }
    load(&self)
    let isGood = !diagnostics[told...].contains { $0.severity == .error }
    guard isGood || former.units[Trial(file: file)] != nil else { return }
    units[Trial(file: file)] = true
    if !isGood { keep(UnitFiles(kind, file), .readByRequests, since: told) }
  }

  /// Turns the errors since that count of diagnostics into what is told of a unit that keeps its content. Without one, the
  /// unit was told at another place.
  package mutating func keep(_ files: UnitFiles, _ use: StaleMaterial.Use, since told: Int, hasChanged: Bool = false) {
    let faults = diagnostics[told...].filter { $0.severity == .error }
    diagnostics[told...].removeAll { $0.severity == .error }
    if let fault = faults.first { keep(files, use, fault, hasChanged: hasChanged) }
  }

  /// `hasChanged`: something is out of effect, however the files look.
  package mutating func keep(_ files: UnitFiles, _ use: StaleMaterial.Use, _ fault: Diagnostic, hasChanged: Bool) {
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
  package var everyStale: [StaleMaterial] {
    guard former.isOfSameConfiguration else { return stale }
    return stale + former.stale.filter { !tried.contains([$0.kind] + $0.files) }
  }
}

/// The files of a unit, for what is told of it.
package struct UnitFiles {
  package let kind: MaterialKind
  package let names: [String]
  /// Those that can be watched.
  package let paths: [String]
  package var identity: [String] { [kind.noun] + names }

  package init(_ kind: MaterialKind, _ files: MaterialReference...) { self.init(kind, files) }

  package init(_ kind: MaterialKind, _ files: [MaterialReference]) {
    self.kind = kind
    names = files.map(\.description)
    paths = files.compactMap { try? $0.resolvedPath(expecting: kind) }
  }

  package init(_ pins: PinSource) {
    kind = .pin
    names = [pins.spelling]
    paths = [pins.path].compactMap { $0 }
  }
}
