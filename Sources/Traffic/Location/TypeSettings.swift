/// The types of files by the endings of their names, lower-case (`types`). One object wherever the lines are inherited.
public final class TypeTable: Sendable {
  package let types: [[UInt8]: [UInt8]]

  public init(_ types: [[UInt8]: [UInt8]]) { self.types = types }

  /// nginx's, without `types`.
  public static let standard = TypeTable(
    [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")].reduce(into: [:]) {
      $0[Array($1.0.utf8)] = Array($1.1.utf8)
    })
}

/// The Content-Type of files and of the texts of `return`: `types` and `default_type`.
public struct TypeSettings: Sendable {
  public var table = TypeTable.standard
  /// Of other files; empty for none.
  public var standard = Array("text/plain".utf8)
  public init() {}

  /// The type by the end of a path.
  package func type(of path: UnsafeRawBufferPointer) -> [UInt8] {
    Self.ending(of: path).flatMap { table.types[$0] } ?? standard
  }

  /// As in nginx, a name that begins with its only dot has no ending.
  private static func ending(of path: UnsafeRawBufferPointer) -> [UInt8]? {
    var at = path.count - 1
    while at > 1 {
      if path[at] == 0x2F { return nil }
      if path[at] == 0x2E, path[at - 1] != 0x2F {
        return path[(at + 1)...].map { $0 &- 65 < 26 ? $0 | 0x20 : $0 }
      }
      at -= 1
    }
    return nil
  }
}
