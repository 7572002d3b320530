/// The program's name and version: in the Server field, on its own pages, in `--version`.
public enum Product {
  public static let name: StaticString = "sallyport"
  public static let version: StaticString = "0.1.0"
  public static let nameAndVersion: StaticString = "sallyport/0.1.0"
}
