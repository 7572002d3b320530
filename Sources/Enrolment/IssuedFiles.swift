package import Bytes
import Crypto
package import Glibc

/// Writes the files that leave the authority with a certificate. Overwrites no file, except one that a renewal has found
/// to be the predecessor's, and writes all of them or none.
///
/// They are staged in full before the certificate counts as issued, so that a full disk is noticed in time.
package struct IssuedFiles: ~Copyable {
  /// Which file that has the name already may be replaced.
  package enum Replaced: Sendable, Hashable {
    case none
    /// The file itself. A link is replaced, and what it leads to stays: for a folder of another user, who could lead root
    /// to any file by it.
    case file
    /// The file, or the one that a link of this name leads to, because a server may name that one.
    case fileOfLink
  }

  private var staged: [(draft: String, path: String, replaces: Bool)] = []

  package init() {}

  /// Removes drafts that were not published.
  deinit { for file in staged { unlink(file.draft) } }

  /// `replacing`: a file of this name is replaced atomically when all are published. Stage a key before its certificate: if the process ends between the two,
  /// the certificate is in the register and can still be written (`CertificateRenewal.interruption`).
  package mutating func stage(
    _ contents: SecretBytes, as path: String, mode: mode_t, replacing: Replaced = .none
  ) throws(AuthorityError) {
    var found = stat()
    // A link that leads nowhere takes the name, too.
    guard replacing != .none || lstat(path, &found) != 0 else { throw Self.taken(path) }
    let path = replacing == .fileOfLink ? MaterialReference(path: path).realPath() ?? path : path
    let folder = NewFile.folder(of: path)
    let draft = "\(path).\(UInt64.random(in: 0 ... .max)).draft"
    do throws(NewFile.Failure) {
      try NewFile.write(contents, to: draft, mode: mode, ownerOf: folder)
    } catch {
      if error.call == "open", error.code == ENOENT || error.code == ENOTDIR {
        throw AuthorityError(
          "\"\(path)\" can't be written: there is no folder \"\(folder)\"",
          hint: "make it, or name another place with --out or --p12")
      }
      // Nobody gave the draft its name.
      throw AuthorityError.system(error.call, path, error.code)
    }
    staged.append((draft, path, replacing != .none))
  }

  /// Renames the drafts. If a file of such a name exists by now, removes all of them and throws.
  package consuming func publish() throws(AuthorityError) {
    var published: [String] = []
    for file in staged where !file.replaces {
      guard link(file.draft, file.path) == 0 else {
        let error = errno == EEXIST ? Self.taken(file.path) : AuthorityError.system("link", file.path)
        for path in published { unlink(path) }
        throw error
      }
      published.append(file.path)
    }
    for file in staged where file.replaces {
      guard rename(file.draft, file.path) == 0 else { throw AuthorityError.system("rename", file.path) }
      published.append(file.path)
    }
    for folder in Set(published.map(NewFile.folder(of:))) {
      try AuthorityError.system { () throws(NewFile.Failure) in try NewFile.sync(folder) }
    }
  }

  private static func taken(_ path: String) -> AuthorityError {
    AuthorityError("\"\(path)\" is there already", hint: "move it away, or name another place with --out or --p12")
  }
}
