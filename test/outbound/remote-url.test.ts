import { isIP } from 'node:net'
import t from 'tap'
import { judgeRedirect, judgeUrl } from '../../src/outbound/remote-url.ts'
import type { UrlRejection } from '../../src/schema/remote-audio.ts'
import { Dice } from '../support/dice.ts'

/** With names that no list should have: what is wrong with a host has to show although it is listed. */
const DOMAINS = [
  'good.example',
  '*.wide.example',
  'xn--bcher-kva.example',
  '127.0.0.1',
  '8.8.8.8',
  '169.254.169.254',
  '[::1]',
  '::1',
  'localhost',
  '*.localhost',
  'metadata.google.internal',
  '*.internal',
  'printer.local',
  'box.localdomain',
  'router.home.arpa',
  'good',
  'good.example.',
  '*',
  '*.',
  '',
]

const LONGEST = 2048
const ofLength = (length: number) => 'https://good.example/'.padEnd(length, 'a')

const ALLOWED: readonly (readonly [text: string, href: string])[] = [
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

const REFUSED: Partial<Record<UrlRejection, readonly string[]>> = {
  scheme: [
    '',
    'good.example',
    '//good.example/',
    'http://good.example/',
    'ftp://good.example/',
    'wss://good.example/',
    'file:///etc/passwd',
    'data:audio/wav;base64,AA',
    'blob:https://good.example/x',
    'javascript:alert(1)',
    'https:good.example',
    'https:/good.example',
    'https:\\\\good.example/',
    ' https://good.example/',
    '\nhttps://good.example/',
    'ht\ntps://good.example/',
    'httpſ://good.example/',
    'view-source:https://good.example/',
  ],
  credentials_in_url: [
    'https://user:pw@good.example/a.mp3',
    'https://user@good.example/',
    'https://@good.example/',
    'https://:@good.example/',
    'https://good.example@127.0.0.1/',
    'https://good.example:443@127.0.0.1/',
    'https://127.0.0.1@good.example/',
    'https://good.example%2f@evil.test/',
    'https://good.example%23@evil.test/',
    'https://a@b@good.example/',
  ],
  port_not_allowed: [
    'https://good.example:22/',
    'https://good.example:80/',
    'https://good.example:4430/',
    'https://good.example:8443/',
    'https://good.example:0/',
    'https://good.example:65536/',
    'https://good.example:65979/',
    'https://good.example:18446744073709552059/',
  ],
  host_not_allowed: [
    // IPv4 as the URL parser reads it.
    'https://127.0.0.1/',
    'https://8.8.8.8/',
    'https://169.254.169.254/latest/meta-data/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://127.1/',
    'https://0/',
    'https://3232235521/',
    'https://2852039166/',
    'https://0251.0376.0251.0376/',
    'https://169.254.43518/',
    'https://127.0.0.1./',
    'https://①②⑦.⓪.⓪.①/',
    'https://127。0。0。1/',
    'https://%31%32%37.0.0.1/',
    'https://256.256.256.256/',
    'https://1.2.3.4.5/',
    'https://127.0.0.1#@good.example/',
    'https://127.0.0.1?@good.example/',
    // IPv6.
    'https://[::ffff:127.0.0.1]/',
    'https://[::]/',
    'https://[::1]/',
    'https://[::1]:443/',
    'https://[2606:4700:4700::1111]/',
    'https://[fe80::1%25eth0]/',
    'https://[fe80::1%eth0]/',
    'https://::1/',
    // Names that are private, or that another reader would take for others.
    'https://localhost/',
    'https://LOCALHOST/',
    'https://foo.localhost/',
    'https://ⓛocalhost/',
    'https://loc%61lhost/',
    'https://localhost./',
    'https://metadata.google.internal/',
    'https://METADATA.google.internal/computeMetadata/v1/',
    'https://x.internal/',
    'https://printer.local/',
    'https://box.localdomain/',
    'https://router.home.arpa/',
    'https://good/',
    'https://good.example./a.mp3',
    'https://good.example../',
    'https://good.example%2e/',
    'https://good%2Eexample/',
    'https://good。example/',
    'https://ｇood.example/',
    'https://go\u00adod.example/',
    'https://bücher.example/',
    // Names that are not listed.
    'https://evil.test/',
    'https://sub.good.example/',
    'https://notgood.example/',
    'https://good.example.evil.test/',
    'https://xgood.example/',
    'https://wide.example/',
    'https://.wide.example/',
    'https://notwide.example/',
    'https://a..wide.example/',
    'https://-a.wide.example/',
    'https://*.wide.example/',
    `https://${'a'.repeat(64)}.wide.example/`,
    `https://${'a.'.repeat(125)}wide.example/`,
    'https://xn--a.wide.example/',
    'https://a%2ewide.example/',
    // Text that readers might find different hosts in.
    'https:///good.example/',
    'https://',
    'https:///',
    'https://?good.example',
    'https://#good.example',
    'https://:443/',
    'https://good.example:44x/',
    'https://good.example:443:443/',
    'https://good.example:+443/',
    'https://127.0.0.1\\@good.example/',
    'https://good.example\\@127.0.0.1/',
    'https://good.example/a\\b',
    'https://good.example/?a\\b',
    'https://\\good.example/',
    'https://good.example /',
    'https://good.example/a b.mp3',
    'https://good.example/ ',
    'https://good.example/\n',
    'https://go\tod.example/',
    'https://go\nod.example/',
    'https://good.example\r\nHost: evil.test/',
    'https://good.example/\0',
    'https://good.example/\x7f',
    'https://good.example/\u0085',
    'https://good.example/\u2028',
    'https://good.example/ä.mp3',
    'https://good.example/\ud800',
    'https://good.example/🎧',
    ofLength(LONGEST + 1),
    // Within the limit as written, over it as parsed.
    `https://good.example/${'"'.repeat(1000)}`,
    `https://good.example?${'a'.repeat(LONGEST - 21)}`,
  ],
}

/** As the name of an assertion, which a line break such as U+2028 would cut in two. */
const shown = (text: string) => encodeURI(text.toWellFormed()).slice(0, 80)

t.test('URLs that may be fetched from', async (t) => {
  for (const [text, href] of ALLOWED) {
    const judged = judgeUrl(text, DOMAINS)
    if ('rejected' in judged) t.fail(`${text} is refused: ${judged.rejected}`)
    else t.same([judged.url.href, judged.host], [href, new URL(href).hostname], text)
  }
})

for (const [reason, texts] of Object.entries(REFUSED)) {
  t.test(`URLs refused for ${reason}`, async (t) => {
    for (const text of texts) t.same(judgeUrl(text, DOMAINS), { rejected: reason }, shown(text))
  })
}

t.test('nothing is allowed by an empty list', async (t) => {
  t.same(judgeUrl('https://good.example/', []), { rejected: 'host_not_allowed' })
})

const FROM = new URL('https://good.example/a/b.mp3?c=1#d')

t.test('redirects to hosts on the list', async (t) => {
  const targets: readonly (readonly [location: string, href: string])[] = [
    ['c.mp3', 'https://good.example/a/c.mp3'],
    ['/c.mp3', 'https://good.example/c.mp3'],
    ['?d=2', 'https://good.example/a/b.mp3?d=2'],
    ['//a.wide.example/x', 'https://a.wide.example/x'],
    ['https://a.wide.example/x', 'https://a.wide.example/x'],
    ['HTTPS://good.example:443/x', 'https://good.example/x'],
    ['https:c.mp3', 'https://good.example/a/c.mp3'],
  ]
  for (const [location, href] of targets) {
    const judged = judgeRedirect(location, FROM, DOMAINS)
    t.equal('url' in judged ? judged.url.href : judged.rejected, href, location)
  }
})

t.test('redirects that are not followed', async (t) => {
  const locations = [
    'https://169.254.169.254/',
    'http://good.example/',
    'http:c.mp3',
    'https://other.example/',
    '//other.example/',
    '///other.example/',
    '//[::1]/x',
    '//127.1/',
    '//localhost/',
    '//good.example.',
    '//user@good.example/',
    '//good.example:22/',
    'file:///etc/passwd',
    'data:audio/wav;base64,AA',
    '',
    '\\\\other.example/',
    '/\\other.example/',
    '/\\good.example/',
    '/a\\b',
    '/a b',
    '\t//other.example/',
    '/\t/other.example/',
    '/a\r\nSet-Cookie: a=b',
    '/ä',
    '//①②⑦.1/',
    `/${'a'.repeat(LONGEST)}`,
    `/${'a'.repeat(LONGEST - 1)}`,
  ]
  for (const location of locations)
    t.same(judgeRedirect(location, FROM, DOMAINS), { rejected: 'redirect_rejected' }, shown(location))
})

const PARTS = [
  ...[
    'https://',
    'https://',
    'HTTPS://',
    'http://',
    'https:',
    '//',
    '/',
    '\\',
    '?',
    '#',
    '@',
    ':',
    '.',
    '..',
    '%',
    '%2e',
  ],
  ...[
    'good.example',
    'good.example',
    'wide.example',
    'a.',
    '*.',
    'xn--',
    'bcher-kva.example',
    'evil.test',
    'localhost',
  ],
  ...[
    '127.0.0.1',
    '127.1',
    '0x7f',
    '2130706433',
    '[::1]',
    '::ffff:',
    ':443',
    ':22',
    'user:pw@',
    '[',
    ']',
    '%00',
    '%25',
  ],
  ...[
    '\t',
    '\n',
    ' ',
    '\0',
    '。',
    '①',
    'ⓛ',
    'ſ',
    'ä',
    '\u00ad',
    '\ud800',
    '"',
    '|',
    '^',
    '`',
    '{}',
    'metadata.google.internal',
  ],
]

/** Half of them begin as a URL on the list does. */
function drawText(dice: Dice): string {
  const parts = Array.from({ length: 1 + dice.below(6) }, () => dice.one(PARTS))
  const begun = dice.one([
    'https://',
    'https://good.example',
    'https://a.wide.example',
    'https://a.wide.example/',
  ])
  return (dice.chance(0.8) ? begun : '') + parts.join('')
}

t.test('what is allowed is on the list, is no address, and is allowed again as the same', async (t) => {
  const dice = new Dice(443)
  let allowed = 0
  for (let round = 0; round < 50_000; round++) {
    const text = drawText(dice)
    const redirected = dice.chance(0.5)
    const judged = redirected ? judgeRedirect(text, FROM, DOMAINS) : judgeUrl(text, DOMAINS)
    if ('rejected' in judged) continue
    allowed++
    const { url, host } = judged
    const sound =
      url.protocol === 'https:' &&
      url.port === '' &&
      url.username + url.password === '' &&
      url.hostname === host &&
      isIP(host) === 0 &&
      (host === 'good.example' ||
        host === 'xn--bcher-kva.example' ||
        /^[a-z0-9.-]+\.wide\.example$/.test(host)) &&
      /^[\x21-\x7e]{1,2048}$/.test(url.href)
    const again = judgeUrl(url.href, DOMAINS)
    const same = 'url' in again && again.url.href === url.href && again.host === host
    if (!sound || !same) t.fail(`${shown(text)} is allowed as ${url.href}, sound ${sound}, same ${same}`)
  }
  t.ok(allowed > 2000, `${allowed} were allowed`)
})
