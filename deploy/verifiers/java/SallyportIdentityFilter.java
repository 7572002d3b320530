import jakarta.servlet.*;
import jakarta.servlet.http.*;
import java.io.*;
import java.math.BigInteger;
import java.net.URI;
import java.net.http.*;
import java.security.*;
import java.security.cert.CertificateFactory;
import java.security.spec.X509EncodedKeySpec;
import java.time.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.*;
import java.util.stream.*;

/**
 * Verifies who a client is, as a sallyport proxy with "client_identity signed;" has signed it (RFC 9421). The init parameter
 * "keys" is the URL of client_identity_keys. The request's attribute "sallyport.certificate" is then the client's verified
 * certificate; it has none of a client without one. Any other request gets 403. A nonce counts once in a process: several
 * processes need a shared store in place of seen(). Java 17 or later, and no library.
 */
public class SallyportIdentityFilter implements Filter {
  // Exactly what the proxy writes: one label, these parameters, this order. A second signature doesn't match.
  private static final Pattern INPUT = Pattern.compile("client=(\\((\"[!-~]+\"(?: \"[!-~]+\")*)\\);created=([0-9]{1,12})"
      + ";expires=([0-9]{1,12});nonce=\"([0-9a-f]{32})\";keyid=\"([A-Za-z0-9_-]{43})\""
      + ";alg=\"(ed25519|ecdsa-p256-sha256)\";tag=\"client-identity\")");
  private static final Pattern SIGNATURE = Pattern.compile("client=:([A-Za-z0-9+/]+={0,2}):");
  private static final List<String> ALWAYS = List.of("\"@method\"", "\"@authority\"", "\"@path\"", "\"@query\"");
  private static final long LIFETIME = 60, SKEW = 5, REFETCH = 10;

  private final Map<String, Long> nonces = new ConcurrentHashMap<>();
  private volatile Map<String, Map<String, String>> keys = Map.of();
  private volatile long fetched = Long.MIN_VALUE / 2, pruned;
  private String url;

  @Override public void init(FilterConfig config) { url = config.getInitParameter("keys"); }

  @Override public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
      throws IOException, ServletException {
    try {
      request.setAttribute("sallyport.certificate", verify((HttpServletRequest) request));
    } catch (Exception reason) {
      System.getLogger("sallyport").log(System.Logger.Level.WARNING, "refused: " + reason);
      ((HttpServletResponse) response).sendError(403, "This request does not come from the proxy.");
      return;
    }
    chain.doFilter(request, response);
  }

  private static String field(HttpServletRequest request, String name) {
    List<String> values = Collections.list(request.getHeaders(name));
    return values.isEmpty() ? null : values.stream().map(String::trim).collect(Collectors.joining(", "));
  }

  private static void require(boolean holds, String fault) throws SecurityException {
    if (!holds) throw new SecurityException(fault);
  }

  java.security.cert.Certificate verify(HttpServletRequest request) throws Exception {
    Matcher given = INPUT.matcher(Objects.requireNonNullElse(field(request, "signature-input"), ""));
    Matcher signature = SIGNATURE.matcher(Objects.requireNonNullElse(field(request, "signature"), ""));
    require(given.matches() && signature.matches(), "no signature of the proxy");
    List<String> components = List.of(given.group(2).split(" "));
    long now = Instant.now().getEpochSecond(), created = Long.parseLong(given.group(3));
    require(components.size() >= 4 && components.subList(0, 4).equals(ALWAYS)
        && new HashSet<>(components).size() == components.size(), "it covers another request");
    for (String told : List.of("client-cert", "client-cert-chain"))
      require((field(request, told) != null) == components.contains('"' + told + '"'), told + " is not signed");
    require(created <= now + SKEW && created >= now - LIFETIME - SKEW && Long.parseLong(given.group(4)) >= now - SKEW, "old");
    String host = Objects.requireNonNullElse(field(request, "host"), "").toLowerCase(Locale.ROOT);
    String query = Objects.requireNonNullElse(request.getQueryString(), "");
    List<String> values = new ArrayList<>(List.of(request.getMethod(),
        host.replaceFirst(request.getScheme().equals("https") ? ":443$" : ":80$", ""), request.getRequestURI(), "?" + query));
    for (String component : components.subList(4, components.size()))
      values.add(component.charAt(1) == '@' ? null : field(request, component.substring(1, component.length() - 1)));
    require(!values.contains(null), "it covers what the request lacks");
    String text = IntStream.range(0, values.size()).mapToObj(at -> components.get(at) + ": " + values.get(at) + "\n")
        .collect(Collectors.joining()) + "\"@signature-params\": " + given.group(1);
    boolean isEdwards = given.group(7).equals("ed25519");
    Signature judge = Signature.getInstance(isEdwards ? "Ed25519" : "SHA256withECDSAinP1363Format");
    judge.initVerify(key(given.group(6), isEdwards));
    judge.update(text.getBytes("ISO-8859-1"));
    require(judge.verify(Base64.getDecoder().decode(signature.group(1))), "not authentic");
    // Last, so that nobody uses up the nonce of a request that is still to come.
    require(!seen(given.group(5), now + 2 * (LIFETIME + SKEW), now), "sent again");
    if (!components.contains("\"client-cert\"")) return null;
    byte[] der = Base64.getDecoder().decode(field(request, "client-cert").replace(":", ""));
    return CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(der));
  }

  private boolean seen(String nonce, long until, long now) {
    if (now - pruned > LIFETIME) { pruned = now; nonces.values().removeIf(end -> end < now); }
    return nonces.putIfAbsent(nonce, until) != null;
  }

  private PublicKey key(String name, boolean isEdwards) throws Exception {
    synchronized (this) {
      long now = System.nanoTime() / 1_000_000_000;
      if (!keys.containsKey(name) && now - fetched > REFETCH) { fetched = now; keys = fetch(); }
    }
    Map<String, String> key = keys.get(name);
    require(key != null && key.get("crv").equals(isEdwards ? "Ed25519" : "P-256"), "the key is unknown");
    String der = isEdwards ? "302a300506032b6570032100" : "3059301306072a8648ce3d020106082a8648ce3d03010703420004";
    for (String member : isEdwards ? List.of("x") : List.of("x", "y"))
      der += HexFormat.of().formatHex(Base64.getUrlDecoder().decode(key.get(member)));
    return KeyFactory.getInstance(isEdwards ? "Ed25519" : "EC").generatePublic(new X509EncodedKeySpec(HexFormat.of().parseHex(der)));
  }

  /** The keys of the proxy are flat objects of strings, so no library for JSON is needed. */
  private Map<String, Map<String, String>> fetch() throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(5)).build();
    HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    require(answer.statusCode() == 200, "the keys are not there");
    return Pattern.compile("\\{[^{}]*\\}").matcher(answer.body()).results().map(object ->
        Pattern.compile("\"(\\w+)\"\\s*:\\s*\"([^\"]*)\"").matcher(object.group()).results()
            .collect(Collectors.toMap(pair -> pair.group(1), pair -> pair.group(2))))
        .collect(Collectors.toMap(key -> key.get("kid"), key -> key));
  }
}
