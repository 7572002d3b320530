import Crypto
import Loading
import Traffic

/// What the ages of the revocation lists were when somebody last looked.
///
/// When the age of a list changes, the files are loaded again: a list that expires soon gives a warning, and an expired one
/// refuses clients that are already connected, too.
struct RevocationAges {
  private let notice: ExpiryNotice
  private var seen: [ExpiryNotice.ListAge]

  init(_ material: FormerMaterial = FormerMaterial(), _ notice: ExpiryNotice = .standard) {
    self.notice = notice
    seen = RevocationNotice.ages(of: material, notice)
  }

  /// Whether an age is another one than the last time.
  mutating func haveChanged(in material: FormerMaterial) -> Bool {
    let now = RevocationNotice.ages(of: material, notice)
    defer { seen = now }
    return now != seen
  }
}
