import t from 'tap'
import { callerAddress } from '../../src/console/server/security.ts'
import { browserName } from '../../src/console/server/session.ts'

const WEBKIT = 'AppleWebKit/537.36 (KHTML, like Gecko)'

t.test('a browser and its system by their names', async (t) => {
  for (const [userAgent, name] of [
    ['Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0', 'Firefox 145 on Linux'],
    [`Mozilla/5.0 (Windows NT 10.0) ${WEBKIT} Chrome/142.0.0.0 Safari/537.36`, 'Chrome 142 on Windows'],
    [`Mozilla/5.0 (Windows NT 10.0) ${WEBKIT} Chrome/142.0 Safari/537.36 Edg/142.1`, 'Edge 142 on Windows'],
    ['Mozilla/5.0 (iPhone) Version/26.0 Mobile/15E148 Safari/604.1', 'Safari 26 on iOS'],
    ['Mozilla/5.0 (Macintosh; Intel Mac OS X) Version/26.1 Safari/605.1.15', 'Safari 26 on macOS'],
    [`Mozilla/5.0 (Linux; Android 16) ${WEBKIT} Chrome/142.0 Mobile Safari/537.36`, 'Chrome 142 on Android'],
    ['curl/8.14.1', 'curl 8'],
    ['', null],
    [undefined, null],
  ] as const)
    t.equal(browserName(userAgent), name)
})

t.test('nothing else of the text is kept', async (t) => {
  t.equal(browserName('<script>alert(1)</script>\u0000'), null)
  t.equal(browserName('Firefox/99999999<b> Linux\u202e'), 'Firefox 9999 on Linux')
  t.equal(
    browserName(`${'x'.repeat(600)} Firefox/145 Linux`),
    null,
    'of what is too long the beginning counts',
  )
})

t.test('the address is that which the proxy saw', async (t) => {
  const of = (peer: string, forwarded?: string) =>
    callerAddress({ peer, headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded } })
  t.equal(of('192.0.2.1'), '192.0.2.1')
  t.equal(of('10.0.0.1', '198.51.100.1, 2001:db8::7'), '2001:db8::7')
  t.equal(of('10.0.0.1', '<b>me</b>'), null, 'made up')
})
