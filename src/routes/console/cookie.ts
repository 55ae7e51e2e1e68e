import type { Exchange } from '../../inbound/exchange.ts'

const NAME = 'lk_console'
/** Of the console alone: no other path of this host ever sees it. */
const SCOPE = 'Path=/console; HttpOnly; SameSite=Strict'

type Caller = Pick<Exchange, 'headers'>

/**
 * The token of the session that a browser sends; null when it sends none. Of two it is not known which is ours, for
 * another host of the same domain may have set one: then it is none, too.
 */
export function tokenOf({ headers }: Caller): string | null {
  const tokens = (headers.cookie ?? '')
    .split(/[;,]/)
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${NAME}=`))
    .map((pair) => pair.slice(NAME.length + 1))
  const [token] = tokens
  return tokens.length === 1 && token !== undefined && token !== '' ? token : null
}

/** Value of `set-cookie`. @param seconds how long the browser keeps it; 0 takes it away */
export function sessionCookie(token: string, seconds: number, { headers }: Caller): string {
  // What is set over a plain connection must come back over one.
  const secure = /^\s*https\b/i.test(headers['x-forwarded-proto'] ?? '') ? '; Secure' : ''
  return `${NAME}=${token}; ${SCOPE}; Max-Age=${seconds}${secure}`
}
