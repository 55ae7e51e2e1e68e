const HOST = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const NUMBER = /^(\d+|0x[0-9a-f]*)$/

/**
 * Whether a lower-case, IDNA-encoded text is the name of a host: at least two labels of letters, digits and hyphens,
 * without the dot of the root, and no IP address in any of its forms.
 */
export function isHostName(text: string): boolean {
  return HOST.test(text) && !NUMBER.test(text.slice(text.lastIndexOf('.') + 1))
}
