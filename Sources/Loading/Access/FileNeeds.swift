import ACME
import Configuration
package import Crypto
import Enrolment
import Features
import Forward
import Glibc
package import Language
import Observability
package import Sandbox
import TLS
package import Traffic
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
    needs += settings.http.fileUses.compactMap { FileNeed($0) }
    var seen: Set<FileNeed> = []
    return needs.filter { seen.insert($0).inserted }
  }

  /// The rules of the opener of root's files. It reads what a reload names, also in folders that the start did not name, as
  /// nginx's master does. It writes in the folders of logs alone.
  package static func rulesOfOpener(_ settings: Settings) -> FileRules {
    var rules = FileRules(fixedLogs(settings).map { FileNeed(.append, $0) }, look: DiskPath.look)
    rules.grant(.read, "/")
    return rules
  }

  /// The paths of which the opener of root's files reads what this process may not.
  package static func readByOpener(_ settings: Settings, _ source: ConfigurationSource) -> Set<String> {
    let folder = settings.folder.isEmpty ? "." : settings.folder
    return Set(
      configuration(source) + [folder]
        + settings.http.filesForReading.compactMap { try? $0.resolvedPath(expecting: .certificate) })
  }

  /// The files of the configuration, and the folders in which it looks for some.
  package static func configuration(_ source: ConfigurationSource) -> [String] {
    let dump = ConfigurationDump(source)
    return dump.files.map(\.path).filter { source.isReadAgain || $0 != source.name } + dump.folders.sorted()
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
    return Set(paths + settings.http.features.all.flatMap { $0.logFiles(settings.http) }.map(\.path)).sorted()
  }

  /// The first key in a token or store. The modules that OpenSSL loads for it open files that only they know.
  package static func tokenKey(_ material: [MaterialReference]) -> MaterialReference? {
    material.first { if case .key = $0.spelling { true } else { false } }
  }

  private static func log(_ destination: LogDestination) -> FileNeed? {
    if case .file(let path) = destination { FileNeed(.append, path) } else { nil }
  }
}

extension FileNeed {
  /// nil: the file has no path, as a key in a token.
  package init?(_ use: FileUse) {
    guard let path = use.resolvedPath else { return nil }
    switch use.access {
    case .read: self.init(.read, path, at: use.location)
    case .append: self.init(.append, path, at: use.location)
    case .change: self.init(.change, path, at: use.location)
    }
  }
}
