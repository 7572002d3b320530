import Bytes
import Traffic

/// What is left of a response's body that comes from a file: the parts of it, and the text around them.
struct FileBody {
  enum Piece: Equatable {
    case text([UInt8])
    case file(Range<UInt64>)
  }

  private var pieces: ArraySlice<Piece> = []

  init() {}
  init(_ pieces: [Piece]) { self.pieces = pieces[...] }

  var next: Piece? { pieces.first }

  /// The number of bytes.
  var length: UInt64 {
    pieces.reduce(0) { sum, piece in
      switch piece {
      case .text(let text): sum &+ UInt64(text.count)
      case .file(let range): sum &+ UInt64(range.count)
      }
    }
  }

  /// Bytes of the first piece were sent.
  mutating func didSend(_ count: Int) {
    guard case .file(let range)? = pieces.first, count < range.count else { return pieces = pieces.dropFirst() }
    pieces[pieces.startIndex] = .file(range.lowerBound + UInt64(max(0, count))..<range.upperBound)
  }

  /// The parts of a `multipart/byteranges` (RFC 9110 §14.6), in nginx's form.
  static func multipart(_ parts: [Range<UInt64>], of length: UInt64, type: [UInt8], boundary: String) -> FileBody {
    var pieces: [Piece] = []
    let typeLine = type.isEmpty ? [] : Array("Content-Type: ".utf8) + type + Array("\r\n".utf8)
    for part in parts {
      let range = "Content-Range: \(Self.contentRange(part, of: length))\r\n\r\n"
      pieces.append(.text(Array("\r\n--\(boundary)\r\n".utf8) + typeLine + Array(range.utf8)))
      pieces.append(.file(part))
    }
    pieces.append(.text(Array("\r\n--\(boundary)--\r\n".utf8)))
    return FileBody(pieces)
  }

  /// The value of Content-Range for a part that isn't empty.
  static func contentRange(_ part: Range<UInt64>, of length: UInt64) -> String {
    "bytes \(part.lowerBound)-\(part.upperBound &- 1)/\(length)"
  }
}
