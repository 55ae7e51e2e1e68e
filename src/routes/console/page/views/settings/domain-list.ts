/**
 * Domains out of what was typed or pasted: one to a line, or between commas or spaces. What is plainly more than a host
 * (scheme, path, port) is cut down to it, since that is what people copy from an address bar.
 */
export function domainsOf(typed: string): readonly string[] {
  const domains = typed.split(/[\s,;]+/).map((text) => {
    const host = text.replace(/^[a-z][a-z0-9+.-]*:\/\//i, '').replace(/[/?#].*$/, '')
    return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase()
  })
  return [...new Set(domains.filter((domain) => domain !== ''))]
}

/** The list with the new ones behind it, each once. */
export function withDomains(list: readonly string[], added: readonly string[]): readonly string[] {
  return [...new Set([...list, ...added])]
}

/** Whether two lists hold the same in the same order. */
export function sameList(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((item, index) => item === other[index])
}
