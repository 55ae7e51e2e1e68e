const HOST = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const NUMBER = /^(\d+|0x[0-9a-f]*)$/

/**
 * Top-level domains whose names mean something else in every network: RFC 6761 and 6762, `arpa` for home.arpa
 * (RFC 8375), `internal` as ICANN reserved it, where clouds keep their metadata, and `localdomain` of hosts
 * files.
 */
const PRIVATE_NAMES = /(?:^|\.)(?:localhost|localdomain|local|internal|arpa)$/

/**
 * Whether a lower-case, IDNA-encoded text is the name of a host: at least two labels of letters, digits and hyphens,
 * without the dot of the root, and no IP address in any of its forms.
 */
export function isHostName(text: string): boolean {
  return HOST.test(text) && !NUMBER.test(text.slice(text.lastIndexOf('.') + 1))
}

/** Whether it is the name of a host, and of the same one wherever it is asked for. */
export function isPublicName(text: string): boolean {
  return isHostName(text) && !PRIVATE_NAMES.test(text)
}
