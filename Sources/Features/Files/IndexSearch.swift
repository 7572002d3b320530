import Files
import Observability
import Traffic

/// `index`: finds the file that stands for a folder, and continues with its path.
enum IndexSearch {
  private enum Outcome: Sendable {
    case found(Int)
    case none
    /// The folder itself is not there, or may not be entered.
    case refused(FileFault)
  }

  static func begin(_ uri: [UInt8], _ files: LiveFiles, _ exchange: Exchange) {
    let folder: ServedPath
    switch files.path(of: uri, exchange) {
    case .success(let path): folder = path
    case .failure(let failure): return exchange.fail(failure)
    }
    let request = FolderContent.Request(path: folder, uri: uri, tellsAbsence: files.settings.logsAbsence)
    guard let choice = files.hooks.choice else { return search(request, files, exchange) }
    choice.begin(request, exchange) { search(request, files, $0) }
  }

  private static func search(_ request: FolderContent.Request, _ files: LiveFiles, _ exchange: Exchange) {
    let (uri, folder) = (request.uri, request.path)
    var candidates: [(uri: [UInt8], path: ServedPath)] = []
    var last: [UInt8]?
    for (template, settings) in zip(files.index, files.settings.index) {
      let name = template.bytes(exchange)
      // The configuration must say the slash: a value of the client's names nothing but a file of the folder.
      if settings.beginsWithSlash {
        last = name
        break
      }
      switch files.path(of: uri, added: name, exchange) {
      case .success(let path): candidates.append((uri + name, path))
      case .failure(let failure): return exchange.fail(failure)
      }
    }
    let paths = candidates.map(\.path)
    FileRequest.run(exchange, { search(paths, folder) }) { exchange, outcome in
      switch (outcome, last) {
      case (.found(let index), _): exchange.redirect(toPath: candidates[index].uri, .kept)
      case (.none, let last?): exchange.redirect(toPath: last, .kept)
      case (.none, nil):
        guard let listing = files.hooks.listing else { return forbid(folder, exchange) }
        listing.begin(request, exchange) { forbid(folder, $0) }
      case (.refused(let fault), _): FileRequest.fail(exchange, folder, fault, tellsAbsence: request.tellsAbsence)
      }
    }
  }

  private static func forbid(_ folder: ServedPath, _ exchange: Exchange) {
    exchange.log(.error, "directory index of \"\(LogEscape.text(folder.text))\" is forbidden")
    exchange.fail(ErrorResponse(403))
  }

  private static func search(_ paths: [ServedPath], _ folder: ServedPath) -> Outcome {
    var isFolderThere = false
    for (index, path) in paths.enumerated() {
      switch ServedFile.look(at: path) {
      case .success: return .found(index)
      case .failure(let fault) where fault.isAbsence:
        if isFolderThere { continue }
        switch ServedFile.look(at: folder) {
        case .failure(let fault): return .refused(fault)
        case .success(let facts) where facts.kind != .folder: return .refused(.system(call: "open", code: notFolder))
        case .success: isFolderThere = true
        }
      case .failure(let fault): return .refused(fault)
      }
    }
    return .none
  }

  /// ENOTDIR
  private static let notFolder: Int32 = 20
}
