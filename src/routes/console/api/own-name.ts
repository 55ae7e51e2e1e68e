import { invalid } from '../../../inbound/refusals.ts'

const NAME_MAX = 64
const REST = /^[A-Za-z0-9_-]+$/

/**
 * What is made in the console of a workspace is called after it, so that workspaces never meet over a name, nor learn
 * of one another by it.
 *
 * @param workspace null: the platform, whose names have no dot
 * @param param     names the part of the path
 * @throws          GatewayError INVALID_REQUEST
 */
export function requireOwnName(workspace: string | null, name: string, param: string): void {
  const prefix = workspace === null ? '' : `${workspace}.`
  const rest = name.startsWith(prefix) ? name.slice(prefix.length) : ''
  const begins = prefix !== '' || /^[A-Za-z0-9]/.test(rest)
  if (REST.test(rest) && begins && name.length <= NAME_MAX) return
  const before = prefix === '' ? '' : `"${prefix}" and `
  throw invalid(
    `${param}: must be ${before}letters, digits, "_" or "-", ${NAME_MAX} characters in all`,
    param,
  )
}
