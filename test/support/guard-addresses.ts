import { execFileSync, spawnSync } from 'node:child_process'
import type { Dice } from './dice.ts'

/** Addresses that hosts on the internet have. */
const PUBLIC = `
  8.8.8.8 1.1.1.1 172.15.255.255 172.32.0.1 100.63.255.255 100.128.0.1 198.20.0.1 169.253.255.255
  169.255.0.1 192.167.255.255 223.255.255.255
  2606:4700:4700::1111 2001:4860:4860::8888
  1.0.0.0 9.255.255.255 11.0.0.0 126.255.255.255 128.0.0.0 168.63.129.15 168.63.129.17 191.255.255.255
  192.0.1.0 192.0.3.0 192.31.195.255 192.31.197.0 192.52.192.255 192.52.194.0 192.88.98.255 192.88.100.0
  192.169.0.0 192.175.47.255 192.175.49.0 198.17.255.255 198.51.99.255 198.51.101.0 203.0.112.255
  203.0.114.0
  2000:: 2001:200:: 2001:db7:ffff:ffff:ffff:ffff:ffff:ffff 2001:db9:: 2003::
  2620:4f:7fff:ffff:ffff:ffff:ffff:ffff 2620:4f:8001:: 3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff 3fff:1000::
  3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2606:4700:4700:0:0:0:0:1111 2606:4700:4700::8.8.8.8
  2A00:1450:4001:82B::200E
`

/** Addresses that lead elsewhere. */
const NOT_PUBLIC = `
  127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1
  192.0.0.192 192.0.2.1 198.51.100.1 240.0.0.1 255.255.255.255 168.63.129.16 169.254.169.254 100.64.0.1
  100.100.100.200 100.127.255.255 198.18.0.1 198.19.255.255 203.0.113.1 224.0.0.1 239.255.255.255
  192.88.99.1 192.31.196.1 192.52.193.1 192.175.48.1 192.0.0.9 192.0.0.10 192.0.0.170
  ::1 :: ::127.0.0.1 ::8.8.8.8 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b::8.8.8.8
  64:ff9b:1::a9fe:a9fe 2002:7f00:1:: 2002:a9fe:a9fe::1 2002:808:808::1 2001:0:808:808::1 2001:10::1
  2001:20::1 2001:30::1 2001:2::1 2001:1::1 2001:1::2 2001:3::1 2001:4:112::1
  2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff 2001:db8::1 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 3fff::1
  3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff 100::1 100:0:0:1::1 fc00::1 fd00:ec2::254 fd20:ce::254 fe80::1
  fe80::5efe:192.168.0.1 febf::1 fec0::1 ff02::1 ff0e::1 5f00::1 2620:4f:8000::1 4000::1
  1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 8000:: ::ffff:0:0:0
`

/** In a list of both families, BlockList judges these by the IPv4 address. */
const MAPPED = `
  ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:808:808 ::FFFF:8.8.8.8 0:0:0:0:0:ffff:8.8.8.8 0:0:0:0:0:ffff:808:808
  ::ffff:10.0.0.1 ::ffff:1.1.1.1
`

const words = (text: string) => text.trim().split(/\s+/)

export const PUBLIC_ADDRESSES: readonly string[] = words(PUBLIC)
export const MAPPED_ADDRESSES: readonly string[] = words(MAPPED)
/** All that are not public, mapped ones among them. */
export const OTHER_ADDRESSES: readonly string[] = [...words(NOT_PUBLIC), ...MAPPED_ADDRESSES]

/** Where verdicts change, written down apart from the product's own tables. */
const BORDERS = `
  0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12
  192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24
  198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32
  ::/128 ::/96 ::1/128 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64
  2000::/3 2001::/23 2001::/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32
  2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48
  3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
`

/**
 * What Python says of each line. Its library lacks what IANA added later and follows the registry where that
 * calls an entry globally reachable, both of which differ among its versions; the rest is said here.
 */
const CLASSIFIER = `
import ipaddress, sys
DENIED = [ipaddress.ip_network(net) for net in '''
  168.63.129.16/32 192.0.0.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.175.48.0/24
  2001::/23 2002::/16 2620:4f:8000::/48 3fff::/20
'''.split()]
UNICAST = ipaddress.ip_network('2000::/3')
for line in sys.stdin.read().split():
    address = ipaddress.ip_address(line)
    public = address.is_global and not address.is_multicast and not address.is_reserved
    public = public and not any(address in net for net in DENIED)
    print(int(public and (address.version == 4 or address in UNICAST)))
`

const FAMILIES = { 4: 32, 6: 128 } as const
export type Family = keyof typeof FAMILIES

function draw(dice: Dice, bits: number): bigint {
  let drawn = 0n
  for (let at = 0; at < bits; at += 16) drawn = (drawn << 16n) | BigInt(dice.below(65_536))
  return drawn
}

/** A few addresses around the first or the last of a prefix, or any in it. */
function drawNear(dice: Dice, family: Family, prefix: string): bigint {
  const bits = FAMILIES[family]
  const [network = '', length] = prefix.split('/')
  const size = 1n << BigInt(bits - Number(length))
  const first = parse(family, network)
  const near = dice.one([first, first + size - 1n]) + BigInt(dice.below(9) - 4)
  const inside = first + (draw(dice, bits) & (size - 1n))
  return (dice.chance(0.75) ? near : inside) & ((1n << BigInt(bits)) - 1n)
}

function parse(family: Family, address: string): bigint {
  if (family === 4) return address.split('.').reduce((all, part) => (all << 8n) | BigInt(part), 0n)
  const [head = '', tail = ''] = address.split('::').map((half) => half.split(':').filter(Boolean))
  const zeros = Array(8 - head.length - tail.length).fill('0')
  return [...head, ...zeros, ...tail].reduce((all, group) => (all << 16n) | BigInt(`0x${group}`), 0n)
}

/** IPv6 in any of the forms that it is written in. */
function format(dice: Dice, family: Family, address: bigint): string {
  const dotted = [24n, 16n, 8n, 0n].map((shift) => (address >> shift) & 255n).join('.')
  if (family === 4) return dotted
  const groups = Array.from({ length: 8 }, (_, index) =>
    ((address >> BigInt(112 - 16 * index)) & 65_535n).toString(16),
  )
  const full = groups.join(':')
  const short = new URL(`http://[${full}]`).hostname.slice(1, -1)
  const mixed = [...groups.slice(0, 6), dotted].join(':')
  return dice.one([full, full.toUpperCase(), short, short, mixed])
}

/** Addresses of a family, half of them near borders. */
export function drawAddresses(dice: Dice, family: Family, count: number): string[] {
  const borders = words(BORDERS).filter((prefix) => prefix.includes(':') === (family === 6))
  return Array.from({ length: count }, (_, index) => {
    if (index % 2 === 0) return format(dice, family, drawNear(dice, family, dice.one(borders)))
    const drawn = draw(dice, FAMILIES[family])
    // Seven in eight IPv6 addresses are outside 2000::/3, which is soon tested.
    const unicast = family === 6 && dice.chance(0.75)
    return format(dice, family, unicast ? (drawn & ((1n << 125n) - 1n)) | (1n << 125n) : drawn)
  })
}

export const HAS_PYTHON = spawnSync('python3', ['-c', 'import ipaddress']).status === 0

/** Whether each of the addresses is public, as Python's library and what it lacks say: another implementation. */
export function verdictsOf(addresses: readonly string[]): boolean[] {
  const output = execFileSync('python3', ['-c', CLASSIFIER], {
    input: addresses.join('\n'),
    encoding: 'utf8',
  })
  return words(output).map((word) => word === '1')
}
