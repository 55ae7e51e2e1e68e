/** Cookie and CSRF token of somebody who has signed in. */
export interface SignedIn {
  readonly cookie: string
  readonly csrf: string
}

/**
 * Signs in at a node.
 *
 * @param headers besides those that a browser sends
 * @throws Error with what the node says instead
 */
export async function openSession(
  url: string,
  key: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<SignedIn> {
  const answer = await fetch(`${url}/console/api/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ key }),
  })
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(`signing in: ${answer.status} ${text}`)
  const { csrf_token: csrf } = JSON.parse(text) as { csrf_token: string }
  return { cookie: answer.headers.get('set-cookie')?.split(';')[0] ?? '', csrf }
}
