import Bytes
import Files
import Forward
import HTTP
import Observability
import Traffic

/// How the path of a request becomes the path of a file: pure, and the one place that does it.
enum FileMapping {
  enum Fault: Error, Equatable {
    /// A segment `..` or a NUL byte stands below the folder.
    case outside
    /// The path continues the name of the `alias` itself, and would lead to what stands beside it.
    case beside
  }

  /// `rest`: the value of `FileRoot.rest`. `added`: follows the path, such as the name of an index file.
  static func path(
    _ root: FileRoot, rest: [UInt8], uri: [UInt8], added: [UInt8] = []
  ) -> Result<ServedPath, Fault> {
    let tail: [UInt8]
    switch root.kind {
    case .root:
      // A name of `try_files` without a slash would continue the last name of the folder.
      guard uri.first == 0x2F || (rest.last ?? root.folder.last) == 0x2F else { return .failure(.beside) }
      return served(root.folder, rest + uri + added)
    case .alias(let prefix): tail = Array(uri.dropFirst(prefix)) + added
    case .wholeAlias: tail = added
    }
    guard let first = tail.first else { return served(root.folder, rest) }
    // nginx would join `location /i { alias /data/images; }` and `/i-secret` to `/data/images-secret`.
    guard first == 0x2F || (rest.last ?? root.folder.last) == 0x2F else { return .failure(.beside) }
    return served(root.folder, rest + tail)
  }

  private static func served(_ folder: [UInt8], _ below: [UInt8]) -> Result<ServedPath, Fault> {
    ServedPath(folder: folder, below: below).map { .success($0) } ?? .failure(.outside)
  }
}

/// The files of a location in one worker.
final class LiveFiles {
  let settings: FileSettings
  let hooks: FileHooks
  let index: [CompiledTemplate]
  let clock = ClockText()
  private let rest: CompiledTemplate
  /// The folder without symbolic links; nil if it wasn't there when the configuration was loaded.
  private let real: [UInt8]?
  /// Whether the value of `rest` is being made: a variable in it may ask for `$document_root`.
  private var isMakingRest = false

  init(_ settings: FileSettings, _ hooks: FileHooks, real: [UInt8]?) {
    self.settings = settings
    self.hooks = hooks
    self.real = real
    rest = settings.root.rest.compiled
    index = settings.index.map(\.compiled)
  }

  /// Maps a path, or says in the error log why it names no file.
  func path(of uri: [UInt8], added: [UInt8] = [], _ exchange: Exchange) -> Result<ServedPath, ErrorResponse> {
    if exchange.target.hasLeftLocation, settings.root.kind != .root {
      exchange.log(.error, "\"alias\" cannot be used where the path was rewritten")
      return .failure(ErrorResponse(500))
    }
    let text = restText(exchange)
    if exchange.variables.isBroken {
      exchange.setBroken(false)
      return .failure(ErrorResponse(500))
    }
    switch FileMapping.path(settings.root, rest: text, uri: uri, added: added) {
    case .success(let path): return .success(path)
    case .failure(.outside):
      exchange.log(.error, "\"\(LogEscape.text(uri + added))\" would leave \"\(LogEscape.text(settings.root.folder))\"")
      return .failure(ErrorResponse(403))
    case .failure(.beside):
      exchange.log(
        .error,
        "\"\(LogEscape.text(uri + added))\" would lead beside the alias \"\(LogEscape.text(settings.root.folder + text))\""
      )
      return .failure(ErrorResponse(403))
    }
  }

  /// The path that tests a name of `try_files`, and the request's path if that file is there.
  func path(ofName name: [UInt8], _ exchange: Exchange) -> (uri: [UInt8], path: Result<ServedPath, ErrorResponse>) {
    var uri = name
    if case .alias(let prefix) = settings.root.kind {
      let location = Array(exchange.target.uri.readable.prefix(prefix))
      // A name made of `$uri` begins with the location already.
      uri = name.starts(with: location) ? name : location + name
    }
    return (uri, path(of: uri, exchange))
  }

  private func restText(_ exchange: Exchange) -> [UInt8] {
    if let constant = rest.constant { return constant }
    if isMakingRest {
      exchange.log(.error, "cycle while evaluating variable \"document_root\"")
      exchange.setBroken(true)
      return []
    }
    isMakingRest = true
    defer { isMakingRest = false }
    return rest.bytes(exchange)
  }

  // MARK: Variables

  /// `$document_root`
  func appendRoot(_ exchange: Exchange, to output: inout ByteBuffer) {
    appendRoot(settings.root.folder, exchange, to: &output)
  }

  /// `$realpath_root`. No link below the folder is followed, so the rest of the path has none.
  func appendRealRoot(_ exchange: Exchange, to output: inout ByteBuffer) {
    if let real { appendRoot(real, exchange, to: &output) }
  }

  private func appendRoot(_ folder: [UInt8], _ exchange: Exchange, to output: inout ByteBuffer) {
    var text = folder + restText(exchange)
    if settings.root.kind == .root, text.count > 1, text.last == 0x2F { text.removeLast() }
    output.append(text)
  }

  /// `$request_filename`: empty if the path names no file.
  func appendFile(_ exchange: Exchange, to output: inout ByteBuffer) {
    guard case .success(let path) = path(of: Array(exchange.target.uri.readable), exchange) else { return }
    output.append(path.text)
  }
}

extension LiveLocation {
  /// nil: neither `root` nor `alias` says where files are.
  var files: LiveFiles? { object(LiveFiles.self) }
}
