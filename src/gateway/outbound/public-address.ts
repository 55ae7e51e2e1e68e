import { BlockList, isIP } from 'node:net'

/**
 * IANA's IPv4 Special-Purpose Address Registry, with the entries too that it calls globally reachable, and
 * others that no host on the internet has: https://www.iana.org/assignments/iana-ipv4-special-registry
 */
const SPECIAL_IPV4 = blockList('ipv4', [
  ['0.0.0.0', 8], // "This network"
  ['10.0.0.0', 8], // Private-Use
  ['100.64.0.0', 10], // Shared Address Space, of carriers and of some clouds' metadata
  ['127.0.0.0', 8], // Loopback
  ['168.63.129.16', 32], // not in the registry: Azure's platform endpoint, in public address space
  ['169.254.0.0', 16], // Link Local, where most clouds keep their metadata
  ['172.16.0.0', 12], // Private-Use
  ['192.0.0.0', 24], // IETF Protocol Assignments; 192.0.0.192 is Oracle Cloud's metadata
  ['192.0.2.0', 24], // Documentation (TEST-NET-1)
  ['192.31.196.0', 24], // AS112-v4
  ['192.52.193.0', 24], // AMT
  ['192.88.99.0', 24], // Deprecated (6to4 Relay Anycast)
  ['192.168.0.0', 16], // Private-Use
  ['192.175.48.0', 24], // Direct Delegation AS112 Service
  ['198.18.0.0', 15], // Benchmarking
  ['198.51.100.0', 24], // Documentation (TEST-NET-2)
  ['203.0.113.0', 24], // Documentation (TEST-NET-3)
  ['224.0.0.0', 4], // not in the registry: multicast, RFC 5771
  ['240.0.0.0', 4], // Reserved (class E), with the Limited Broadcast 255.255.255.255
])

/**
 * Global Unicast, the only part of IPv6 that is given to hosts on the internet (RFC 4291,
 * https://www.iana.org/assignments/ipv6-address-space). Outside it: loopback, link-local, site-local, unique
 * local and multicast addresses, the dummy prefixes, segment routing (5f00::/16), and IPv4 as mapped,
 * compatible, translated and NAT64 addresses have it embedded: where those lead to is the network's affair,
 * so that they are not public whatever IPv4 address is in them.
 */
const GLOBAL_IPV6 = blockList('ipv6', [['2000::', 3]])

/**
 * The part of the IPv6 registry that lies within Global Unicast:
 * https://www.iana.org/assignments/iana-ipv6-special-registry
 */
const SPECIAL_IPV6 = blockList('ipv6', [
  // IETF Protocol Assignments: Teredo (2001::/32), benchmarking (2001:2::/48), AMT (2001:3::/32),
  // AS112-v6 (2001:4:112::/48), both ORCHIDs (2001:10::/28, 2001:20::/28), DETs (2001:30::/28) and anycast.
  ['2001::', 23],
  ['2001:db8::', 32], // Documentation
  ['2002::', 16], // 6to4, which has IPv4 embedded
  ['2620:4f:8000::', 48], // Direct Delegation AS112 Service
  ['3fff::', 20], // Documentation
])

/**
 * True if a host anywhere on the internet may have this address. False for any that is loopback, private,
 * link-local, a cloud's metadata, multicast, reserved or otherwise special, for IPv6 with IPv4 embedded, for
 * an address with a zone, and for text that is not an address.
 *
 * @param address IPv4 or IPv6 as a resolver or a socket reports it: without brackets, IPv4 as four decimal
 *                numbers
 */
export function isPublicAddress(address: string): boolean {
  // BlockList drops a zone and takes the address before it.
  if (address.includes('%')) return false
  switch (isIP(address)) {
    case 4:
      return !SPECIAL_IPV4.check(address, 'ipv4')
    case 6:
      return GLOBAL_IPV6.check(address, 'ipv6') && !SPECIAL_IPV6.check(address, 'ipv6')
    default:
      return false
  }
}

/**
 * One family a list: BlockList compares ::ffff:0:0/96 with the IPv4 entries and IPv4 with its IPv6 ones, and
 * in a list of both a mapped address could be judged by the address embedded in it.
 */
function blockList(family: 'ipv4' | 'ipv6', prefixes: readonly (readonly [string, number])[]): BlockList {
  const list = new BlockList()
  for (const [network, bits] of prefixes) list.addSubnet(network, bits, family)
  return list
}
