package import Crypto
import Forward
import Traffic
package import UpstreamAuth

/// The accounts that answer challenges of upstreams (`proxy_auth_user_file`).
package struct UpstreamUsers: GenerationPart {
  package var files: [MaterialReference: UserFile] = [:]
  package init() {}
}

private struct UserFileUnit: MaterialUnit {
  typealias Content = UserFile
  let file: MaterialReference
}

extension ProxyAuth {
  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    // A file that one location reloads is reloaded for all: an account that was removed must not stay with another one.
    var reloaded: Set<MaterialReference> = []
    http.visitLocations { location in
      if let settings = location[UpstreamPass.self]?[UpstreamAuthSettings.self], settings.reloads {
        reloaded.insert(settings.users)
      }
    }
    http.visitLocations { location in
      guard let settings = location[UpstreamPass.self]?[UpstreamAuthSettings.self] else { return }
      let file = settings.users
      // A faulty file is read again for each line that names it, so that each line gets its diagnostic.
      guard parts[UpstreamUsers.self].files[file] == nil else { return }
      let loaded = loader.unit(UserFileUnit(file: file), .users, file, reloads: reloaded.contains(file)) {
        () throws(MaterialError) in try UserFile.load(file)
      }
      guard let loaded else { return }
      parts[UpstreamUsers.self].files[file] = loaded
      loader.warnOfReaders(file)
    }
  }
}
