import Configuration
import ACME
package import Crypto
import Glibc
import Language
import Enrolment
import Observability
package import Proxy
package import Sandbox
import TLS
import Transport
import Upstream
import UpstreamAuth

/// The paths that a configuration names, for the sandbox's rules. Nothing is opened.
package enum FileNeeds {
  /// `files`: the configuration's own files, with those that it includes, and the folders in which it looks for some.
  package static func all(_ settings: Settings, files: [String]) -> [FileNeed] {
    let main = settings.main
    var needs = (files + [settings.folder.isEmpty ? "." : settings.folder]).map { FileNeed(.read, $0) }
    needs += main.errorLogs.compactMap { log($0.destination) }
    if let pid = main.pidFile { needs.append(FileNeed(.replace, pid)) }
    needs += settings.http.listeners.compactMap { listener in
      guard case .socket(.unix(let path)) = listener.address else { return nil }
      return FileNeed(.replace, path, at: listener.location)
    }
    needs += settings.http.materialReferences.compactMap { read($0) }
    needs += settings.http.servers.compactMap(\.tls).flatMap(\.namedCertificates).flatMap { named in
      [named.certificate, named.key].compactMap { $0 }.flatMap { path in
        path.folders.map { FileNeed(.read, $0, at: path.location) }
      }
    }
    needs += settings.http.revocationFolders.sorted().map { FileNeed(.change, $0) }
    for (_, location) in settings.http.everyLocation { needs += Self.needs(of: location) }
    if settings.http.hasWritableAPI, let folder = DenialState.folder { needs.append(FileNeed(.change, folder)) }
    let states = settings.http.keyvalZones.map(\.stateFile) + settings.http.groups.map(\.stateFile)
    needs += states.compactMap { $0.map { FileNeed(.change, NewFile.folder(of: $0)) } }
    // One that is missing gets no rule: the rule would be for the folder above it.
    for issuer in Set(settings.http.acmeCertificates.map(\.issuer)) where access(issuer.stateFolder, F_OK) == 0 {
      needs.append(FileNeed(.change, issuer.stateFolder, at: issuer.location))
    }
    var seen: Set<FileNeed> = []
    return needs.filter { seen.insert($0).inserted }
  }

  /// The rules of the opener of root's files. It reads what a reload names, also in folders that the start did not name, as
  /// nginx's master does. It writes in the folders of logs alone.
  static func rulesOfOpener(_ settings: Settings) -> FileRules {
    var rules = FileRules(fixedLogs(settings).map { FileNeed(.append, $0) }, look: DiskPath.look)
    rules.grant(.read, "/")
    return rules
  }

  /// The paths of which the opener of root's files reads what this process may not.
  static func readByOpener(_ settings: Settings, _ source: ConfigurationSource) -> Set<String> {
    let folder = settings.folder.isEmpty ? "." : settings.folder
    return Set(configuration(source) + [folder] + openedForReading(settings.http).compactMap { read($0)?.path })
  }

  /// The files of the configuration, and the folders in which it looks for some.
  static func configuration(_ source: ConfigurationSource) -> [String] {
    let dump = ConfigurationDump(source)
    return dump.files.map(\.path).filter { source.isReadAgain || $0 != source.name } + dump.folders.sorted()
  }

  /// The files that a reload or a request reads: keys, certificates, passwords, lists.
  static func openedForReading(_ http: HTTPSettings) -> [MaterialReference] {
    let passwords = http.everyLocation.flatMap { place in
      let desk = place.settings[EnrolmentSettings.self]
      return [place.settings[AuthBasic.self]?.users, desk?.passwords, desk?.users]
    }
    return http.materialReferences + passwords.compactMap { $0 }
  }

  /// The logs whose names don't depend on requests.
  static func fixedLogs(_ settings: Settings) -> [String] {
    let locations = settings.http.everyLocation
    let errorLogs = settings.main.errorLogs + locations.flatMap { $0.settings.errorLogs }
    let accessLogs = locations.flatMap { $0.settings.accessLogs }.compactMap { log in
      if case .fixed(let destination) = log.destination { destination } else { nil as LogDestination? }
    }
    let paths = (errorLogs.map(\.destination) + accessLogs).compactMap { destination in
      if case .file(let path) = destination { path } else { nil as String? }
    }
    return Set(paths).sorted()
  }

  /// The first key in a token or store. The modules that OpenSSL loads for it open files that only they know.
  package static func tokenKey(_ material: [MaterialReference]) -> MaterialReference? {
    material.first { if case .key = $0.spelling { true } else { false } }
  }

  // MARK: Locations

  private static func needs(of location: LocationSettings) -> [FileNeed] {
    var needs =
      location.errorLogs.compactMap { log($0.destination) } + location.accessLogs.compactMap { log($0.destination) }
    if location.mayKeepBodies { needs.append(FileNeed(.change, location.bodyFolder)) }
    if let files = location[FileSettings.self] {
      needs.append(FileNeed(.read, String(decoding: files.root.folder, as: UTF8.self)))
    }
    switch location[AuthBasic.self]?.source {
    case .file(let users): needs += [read(users)].compactMap { $0 }
    case .named(let path, let folder): needs += [folderOf(path, relativeTo: folder)].compactMap { $0 }
    case nil: break
    }
    if let enrolment = location[EnrolmentSettings.self] {
      if let folder = enrolment.authority.realPath() {
        needs.append(FileNeed(.change, folder, at: enrolment.authority.location))
        needs += AuthorityStore.databaseFiles(of: folder).map { FileNeed(.read, $0, at: enrolment.authority.location) }
      }
      needs += [enrolment.passwords, enrolment.users].compactMap { $0.flatMap { read($0) } }
    }
    if let pass = location[UpstreamPass.self] {
      if case .permanent(folder: let folder)? = pass.authentication?.persistence {
        needs.append(FileNeed(.change, folder))
      }
      if let identity = pass.identity {
        needs += [identity.certificate, identity.key].compactMap { path in
          path.flatMap { folderOf($0, relativeTo: identity.folder, at: identity.location) }
        }
      }
    }
    return needs
  }

  private static func read(_ reference: MaterialReference) -> FileNeed? {
    guard let path = try? reference.resolvedPath(expecting: .certificate) else { return nil }
    return FileNeed(.read, path, at: reference.location)
  }

  private static func log(_ destination: LogDestination) -> FileNeed? {
    if case .file(let path) = destination { FileNeed(.append, path) } else { nil }
  }

  private static func log(_ destination: AccessLogDestination) -> FileNeed? {
    switch destination {
    case .fixed(let destination): log(destination)
    case .folder(let settings): FileNeed(.change, settings.folder)
    }
  }

  /// The folder that a path with variables begins with: requests complete the path below it.
  private static func folderOf(
    _ template: Template, relativeTo folder: String, at location: SourceLocation? = nil
  ) -> FileNeed? {
    guard case .literal(let bytes)? = template.parts.first else { return FileNeed(.read, folder, at: location) }
    let start = String(decoding: bytes, as: UTF8.self)
    guard template.parts.count > 1 else { return FileNeed(.read, resolve(start, in: folder), at: location) }
    let path = resolve(start, in: folder)
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), slash > path.startIndex else { return nil }
    return FileNeed(.read, String(path[..<slash]), at: location)
  }
}

extension LocationSettings {
  /// Whether a request body may go to a file: that of a `proxy_pass`, or one that a step collects before.
  fileprivate var mayKeepBodies: Bool {
    keepsBodies || self[Signatures.self] != nil || self[Mirror.self] != nil || self[UpstreamPass.self] != nil
      || self[EnrolmentSettings.self] != nil
  }
}
