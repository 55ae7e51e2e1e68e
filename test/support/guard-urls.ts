import type { UrlRejection } from '../../src/contracts/remote-audio.ts'

/** With names that no list should have: what is wrong with a host has to show although it is listed. */
export const DOMAINS = [
  ...['good.example', '*.wide.example', 'xn--bcher-kva.example', '127.0.0.1', '8.8.8.8', '169.254.169.254'],
  ...['[::1]', '::1', 'localhost', '*.localhost', 'metadata.google.internal', '*.internal', 'printer.local'],
  ...['box.localdomain', 'router.home.arpa', 'good', 'good.example.', '*', '*.', ''],
]

/** Labels that decode to no name. The URL standard lets them be by now, and so does Node 26. */
export const INVALID_LABELS = ['xn--a', 'xn--zz'].filter((label) => !URL.canParse(`https://${label}.example`))

export const LONGEST = 2048
const ofLength = (length: number) => 'https://good.example/'.padEnd(length, 'a')

/** What audio may be fetched from, as far as the text tells, and as it is parsed. */
export const ALLOWED_URLS: readonly (readonly [text: string, href: string])[] = [
  ['https://good.example/a.mp3', 'https://good.example/a.mp3'],
  ['https://good.example', 'https://good.example/'],
  ['https://good.example?a=1#t=3', 'https://good.example/?a=1#t=3'],
  ['https://good.example#t', 'https://good.example/#t'],
  ['https://good.example:443/a.mp3', 'https://good.example/a.mp3'],
  ['https://good.example:0443/', 'https://good.example/'],
  ['https://good.example:/', 'https://good.example/'],
  ['HTTPS://good.example/a.mp3', 'https://good.example/a.mp3'],
  ['https://GOOD.Example/A.mp3', 'https://good.example/A.mp3'],
  ['https://good.example/@evil.test/:22', 'https://good.example/@evil.test/:22'],
  [
    'https://good.example/?u=https://user:pw@evil.test:22/',
    'https://good.example/?u=https://user:pw@evil.test:22/',
  ],
  ['https://good.example//evil.test/../a', 'https://good.example//a'],
  ['https://good.example/%5C%00%2e%2E/', 'https://good.example/%5C%00%2e%2E/'],
  ['https://a.wide.example/', 'https://a.wide.example/'],
  ['https://a.b.wide.example/', 'https://a.b.wide.example/'],
  ['https://XN--BCHER-KVA.example/', 'https://xn--bcher-kva.example/'],
  [ofLength(LONGEST), ofLength(LONGEST)],
]

/** What audio is not fetched from, for its text alone, by the reason that is told. */
export const REFUSED_URLS: Partial<Record<UrlRejection, readonly string[]>> = {
  scheme: [
    ...['', 'good.example', '//good.example/', 'http://good.example/', 'ftp://good.example/'],
    ...['wss://good.example/', 'file:///etc/passwd', 'data:audio/wav;base64,AA'],
    ...['blob:https://good.example/x', 'javascript:alert(1)', 'https:good.example', 'https:/good.example'],
    ...['https:\\\\good.example/', ' https://good.example/', '\nhttps://good.example/'],
    ...['ht\ntps://good.example/', 'httpſ://good.example/', 'view-source:https://good.example/'],
  ],
  credentials_in_url: [
    ...['https://user:pw@good.example/a.mp3', 'https://user@good.example/', 'https://@good.example/'],
    ...['https://:@good.example/', 'https://good.example@127.0.0.1/', 'https://good.example:443@127.0.0.1/'],
    ...['https://127.0.0.1@good.example/', 'https://good.example%2f@evil.test/'],
    ...['https://good.example%23@evil.test/', 'https://a@b@good.example/'],
  ],
  port_not_allowed: [
    ...['https://good.example:22/', 'https://good.example:80/', 'https://good.example:4430/'],
    ...['https://good.example:8443/', 'https://good.example:0/', 'https://good.example:65536/'],
    ...['https://good.example:65979/', 'https://good.example:18446744073709552059/'],
  ],
  host_not_allowed: [
    // IPv4 as the URL parser reads it.
    ...['https://127.0.0.1/', 'https://8.8.8.8/', 'https://169.254.169.254/latest/meta-data/'],
    ...['https://2130706433/', 'https://0x7f000001/', 'https://127.1/', 'https://0/', 'https://3232235521/'],
    ...['https://2852039166/', 'https://0251.0376.0251.0376/', 'https://169.254.43518/'],
    ...['https://127.0.0.1./', 'https://①②⑦.⓪.⓪.①/', 'https://127。0。0。1/', 'https://%31%32%37.0.0.1/'],
    ...['https://256.256.256.256/', 'https://1.2.3.4.5/', 'https://127.0.0.1#@good.example/'],
    'https://127.0.0.1?@good.example/',
    // IPv6.
    ...['https://[::ffff:127.0.0.1]/', 'https://[::]/', 'https://[::1]/', 'https://[::1]:443/'],
    ...['https://[2606:4700:4700::1111]/', 'https://[fe80::1%25eth0]/', 'https://[fe80::1%eth0]/'],
    'https://::1/',
    // Names that are private, or that another reader would take for others.
    ...['https://localhost/', 'https://LOCALHOST/', 'https://foo.localhost/', 'https://ⓛocalhost/'],
    ...['https://loc%61lhost/', 'https://localhost./', 'https://metadata.google.internal/'],
    ...['https://METADATA.google.internal/computeMetadata/v1/', 'https://x.internal/'],
    ...['https://printer.local/', 'https://box.localdomain/', 'https://router.home.arpa/', 'https://good/'],
    ...['https://good.example./a.mp3', 'https://good.example../', 'https://good.example%2e/'],
    ...['https://good%2Eexample/', 'https://good。example/', 'https://ｇood.example/'],
    ...['https://go\u00adod.example/', 'https://bücher.example/'],
    // Names that are not listed.
    ...['https://evil.test/', 'https://sub.good.example/', 'https://notgood.example/'],
    ...['https://good.example.evil.test/', 'https://xgood.example/', 'https://wide.example/'],
    ...['https://.wide.example/', 'https://notwide.example/', 'https://a..wide.example/'],
    ...['https://-a.wide.example/', 'https://*.wide.example/'],
    `https://${'a'.repeat(64)}.wide.example/`,
    `https://${'a.'.repeat(125)}wide.example/`,
    'https://a⒈.wide.example/',
    ...INVALID_LABELS.map((label) => `https://${label}.wide.example/`),
    'https://a%2ewide.example/',
    // Text that readers might find different hosts in.
    ...['https:///good.example/', 'https://', 'https:///', 'https://?good.example', 'https://#good.example'],
    ...['https://:443/', 'https://good.example:44x/', 'https://good.example:443:443/'],
    ...['https://good.example:+443/', 'https://127.0.0.1\\@good.example/'],
    ...['https://good.example\\@127.0.0.1/', 'https://good.example/a\\b', 'https://good.example/?a\\b'],
    ...['https://\\good.example/', 'https://good.example /', 'https://good.example/a b.mp3'],
    ...['https://good.example/ ', 'https://good.example/\n', 'https://go\tod.example/'],
    ...['https://go\nod.example/', 'https://good.example\r\nHost: evil.test/', 'https://good.example/\0'],
    ...['https://good.example/\x7f', 'https://good.example/\u0085', 'https://good.example/\u2028'],
    ...['https://good.example/ä.mp3', 'https://good.example/\ud800', 'https://good.example/🎧'],
    ofLength(LONGEST + 1),
    // Within the limit as written, over it as parsed.
    `https://good.example/${'"'.repeat(1000)}`,
    `https://good.example?${'a'.repeat(LONGEST - 21)}`,
  ],
}

/**
 * What webhooks take though audio is not fetched from it, and which connection each of them comes to when every name is
 * at 8.8.8.8: webhooks have no list of hosts, any port and any script, and may be at an address that is public.
 */
export const URLS_OF_HOOKS_ALONE: Readonly<Record<string, string>> = {
  // Credentials that are empty are none.
  'https://@good.example/': '8.8.8.8 443',
  'https://:@good.example/': '8.8.8.8 443',
  'https://good.example:22/': '8.8.8.8 22',
  'https://good.example:80/': '8.8.8.8 80',
  'https://good.example:4430/': '8.8.8.8 4430',
  'https://good.example:8443/': '8.8.8.8 8443',
  'https://good.example:0/': '8.8.8.8 0',
  'https://8.8.8.8/': '8.8.8.8 443',
  'https://[2606:4700:4700::1111]/': '2606:4700:4700::1111 443',
  // Hosts as the parser reads them, once.
  'https://good%2Eexample/': '8.8.8.8 443',
  'https://good。example/': '8.8.8.8 443',
  'https://ｇood.example/': '8.8.8.8 443',
  'https://go\u00adod.example/': '8.8.8.8 443',
  'https://bücher.example/': '8.8.8.8 443',
  'https://a%2ewide.example/': '8.8.8.8 443',
  // Names that no list has.
  'https://evil.test/': '8.8.8.8 443',
  'https://sub.good.example/': '8.8.8.8 443',
  'https://notgood.example/': '8.8.8.8 443',
  'https://good.example.evil.test/': '8.8.8.8 443',
  'https://xgood.example/': '8.8.8.8 443',
  'https://wide.example/': '8.8.8.8 443',
  'https://notwide.example/': '8.8.8.8 443',
  // Paths that become percent-encoded.
  'https://good.example/ä.mp3': '8.8.8.8 443',
  'https://good.example/\ud800': '8.8.8.8 443',
  'https://good.example/🎧': '8.8.8.8 443',
}

/** What webhooks do not take, beside what is refused to audio. */
const REFUSED_TO_HOOKS = [
  ...['data:application/json,{}', 'https://10.0.0.1:8443/', 'https://[fd00:ec2::254]/'],
  ...['https://localhost:8080/', 'https://@127.0.0.1/', 'https://@[::1]:8443/'],
  ...['https://[::ffff:7f00:1]:443/', 'https://hooks/', 'https://good.example/#a'],
  ...['https://good.example?a=1#t=3', 'https://good.example#t'],
]

/** All that is refused to webhooks for its text alone. */
export const URLS_REFUSED_TO_HOOKS: readonly string[] = [
  ...Object.values(REFUSED_URLS).flat(),
  ...REFUSED_TO_HOOKS,
].filter((text) => !(text in URLS_OF_HOOKS_ALONE))

/** All that webhooks go to, each with the connection that it comes to when every name is at 8.8.8.8. */
export const URLS_OF_HOOKS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ALLOWED_URLS.flatMap(([text]) => (URLS_REFUSED_TO_HOOKS.includes(text) ? [] : [[text, '8.8.8.8 443']])),
  ),
  ...URLS_OF_HOOKS_ALONE,
}

/** As the name of an assertion, which a line break such as U+2028 would cut in two. */
export const shown = (text: string) => encodeURI(text.toWellFormed()).slice(0, 80)
