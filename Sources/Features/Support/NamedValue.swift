extension String {
  /// Splits `name=value`. Without `=`, the value is nil.
  var splitAtEquals: (name: String, value: String?) {
    guard let index = firstIndex(of: "=") else { return (self, nil) }
    return (String(self[..<index]), String(self[self.index(after: index)...]))
  }
}
