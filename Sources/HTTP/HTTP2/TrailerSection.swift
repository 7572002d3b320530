internal import Bytes

/// Collects the fields of a block of trailers of HTTP/2, with the bounds and the checks of a trailer section of HTTP/1.
public struct TrailerSection: ~Copyable {
  private var section = ByteBuffer()
  private var error: BodyError?

  public init() {}

  public mutating func begin() {
    section.removeAll()
    error = nil
  }

  public mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    guard error == nil else { return }
    guard section.count &+ name.count &+ value.count &+ 4 <= Trailers.sectionBytes else {
      return error = .trailersTooLarge
    }
    // In the section, such a value would begin another line.
    do throws(HeadError) { try HTTP2Lines.check(name, value) } catch { return self.error = .badTrailer(error) }
    section.append(name)
    section.append(": ")
    section.append(value)
    section.append("\r\n")
  }

  /// Returns the trailers; nil if none are left without those that a trailer must not be.
  public mutating func take() throws(BodyError) -> Trailers? {
    defer { section.release() }
    if let error { throw error }
    section.append("\r\n")
    return try Trailers(Array(section.readable))
  }
}
