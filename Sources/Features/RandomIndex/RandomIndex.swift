import Files
import Forward
import Language
import Observability
import Traffic

/// random_index (nginx: ngx_http_random_index_module): a request for a folder gets one of its files, chosen anew each time.
struct RandomIndex: FeatureSettings, LocationFeature {
  var isOn = false

  static let chapter = Chapter.files

  static let rows: [Row<RandomIndex>] = [
    .flag(
      "random_index", .location, \.isOn,
      "Continues a request for a folder with one of its files, chosen at random. Names that begin with a dot and symbolic"
        + " links don't count. A folder without such a file has its `index`.", example: "random_index on;")
  ]

  var isInEffect: Bool { isOn }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.fileHooks?.choice = RandomFile() }
}

/// `random_index on` in one worker.
private final class RandomFile: FolderContent {
  override func begin(_ request: Request, _ exchange: Exchange, else next: @escaping (Exchange) -> Void) {
    let folder = request.path
    FileRequest.run(exchange, { Self.name(in: folder) }) { exchange, result in
      switch result {
      case .failure(let fault): FileRequest.fail(exchange, folder, fault, tellsAbsence: request.tellsAbsence)
      case .success(nil): next(exchange)
      case .success(let name?): exchange.redirect(toPath: request.uri + name, .kept)
      }
    }
  }

  private static func name(in folder: ServedPath) -> Result<[UInt8]?, FileFault> {
    ServedFolder.list(folder).map { $0.lazy.filter { $0.facts.kind == .regular }.map(\.name).randomElement() }
  }
}
