import type { DnsAnswer, DnsQuestion, DnsRecord } from './dns-server.ts'

export const PUBLIC = '8.8.8.8'
export const PUBLIC_SIX = '2606:4700:4700::1111'
export const NOT_PUBLIC = 'AUDIO_URL_REJECTED address_not_public'
export const UNRESOLVABLE = 'AUDIO_URL_REJECTED unresolvable'

export const a = (data: string): DnsRecord => ({ type: 'A', data })
export const aaaa = (data: string): DnsRecord => ({ type: 'AAAA', data })
const alias = (data: string, name?: string): DnsRecord => ({
  type: 'CNAME',
  data,
  ...(name === undefined ? {} : { name }),
})

/** Records of the type asked for, with the aliases that lead to them. */
export const zone =
  (...records: DnsRecord[]) =>
  ({ type }: DnsQuestion): DnsAnswer => ({
    records: records.filter((record) => record.type === type || record.type === 'CNAME'),
  })

export const coded =
  (code: NonNullable<DnsAnswer['code']>, otherwise: DnsRecord | null = null) =>
  ({ type }: DnsQuestion): DnsAnswer =>
    otherwise?.type === type ? { records: [otherwise] } : { code }

const many = (count: number, last = PUBLIC) =>
  Array.from({ length: count }, (_, index) => a(index === count - 1 ? last : PUBLIC))

/** What comes of a look-up: audio that is heard, or why it is not fetched. Every name stands for good.example. */
export const DNS_ANSWERS: Record<
  string,
  [answer: (question: DnsQuestion) => DnsAnswer | null, outcome: string]
> = {
  'one public address': [zone(a(PUBLIC)), 'heard'],
  'a public address of each family': [zone(a(PUBLIC), aaaa(PUBLIC_SIX)), 'heard'],
  'IPv6 only': [zone(aaaa(PUBLIC_SIX)), 'heard'],
  'a private address': [zone(a('10.0.0.1')), NOT_PUBLIC],
  'a public and a loopback address': [zone(a(PUBLIC), a('127.0.0.1')), NOT_PUBLIC],
  'a loopback and a public address': [zone(a('127.0.0.1'), a(PUBLIC)), NOT_PUBLIC],
  'a public address and ::1': [zone(a(PUBLIC), aaaa('::1')), NOT_PUBLIC],
  'NAT64 of cloud metadata': [zone(aaaa('64:ff9b::a9fe:a9fe')), NOT_PUBLIC],
  'mapped IPv4, though public': [zone(aaaa('::ffff:8.8.8.8')), NOT_PUBLIC],
  'an alias to metadata': [
    zone(alias('metadata.google.internal'), { ...a('169.254.169.254'), name: 'metadata.google.internal' }),
    NOT_PUBLIC,
  ],
  'an alias to nowhere': [zone(alias('gone.example')), UNRESOLVABLE],
  'an alias to a public address': [
    zone(alias('cdn.example'), { ...a(PUBLIC), name: 'cdn.example' }),
    'heard',
  ],
  'aliases in a circle': [zone(alias('b.example'), alias('good.example', 'b.example')), UNRESOLVABLE],
  NXDOMAIN: [coded('NXDOMAIN'), UNRESOLVABLE],
  SERVFAIL: [coded('SERVFAIL'), UNRESOLVABLE],
  REFUSED: [coded('REFUSED'), UNRESOLVABLE],
  'an empty answer': [zone(), UNRESOLVABLE],
  'NXDOMAIN for IPv6': [coded('NXDOMAIN', a(PUBLIC)), 'heard'],
  'NXDOMAIN for IPv4': [coded('NXDOMAIN', aaaa(PUBLIC_SIX)), 'heard'],
  'SERVFAIL for IPv6': [coded('SERVFAIL', a(PUBLIC)), 'heard'],
  '200 addresses': [zone(...many(200)), 'heard'],
  '200 addresses, the last one private': [zone(...many(200, '192.168.0.1')), NOT_PUBLIC],
  '9 addresses, the last one loopback': [zone(...many(9, '127.0.0.1')), NOT_PUBLIC],
}
