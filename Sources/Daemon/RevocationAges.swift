/// What the ages of the revocation lists were when somebody last looked.
///
/// When the age of a list changes, the files are loaded again: a list that expires soon gives a warning, and an expired one
/// refuses clients that are already connected, too.
struct RevocationAges {
  private var seen: [RevocationNotice.Age] = []

  init() {}

  init(_ material: FormerMaterial) { seen = RevocationNotice.ages(of: material) }

  /// Whether an age is another one than the last time.
  mutating func haveChanged(in material: FormerMaterial) -> Bool {
    let now = RevocationNotice.ages(of: material)
    defer { seen = now }
    return now != seen
  }
}
