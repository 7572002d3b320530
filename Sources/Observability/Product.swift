/// What this program calls itself: in Server, on its own pages, in `--version`.
public enum Product {
  public static let name: StaticString = "sallyport"
  public static let version: StaticString = "0.1.0"
  public static let nameAndVersion: StaticString = "sallyport/0.1.0"
}
