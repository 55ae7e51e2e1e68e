import t from 'tap'
import { startGuardRig } from '../support/guard-rig.ts'
import {
  ALLOWED_URLS,
  DOMAINS,
  REFUSED_URLS,
  shown,
  URLS_OF_HOOKS,
  URLS_OF_HOOKS_ALONE,
  URLS_REFUSED_TO_HOOKS,
} from '../support/guard-urls.ts'

t.setTimeout(120_000)

t.test('audio is fetched from what the list has, at once and by a job', async (t) => {
  const rig = await startGuardRig(t, { domains: DOMAINS })
  for (const [text, href] of ALLOWED_URLS) {
    rig.dialled.length = 0
    t.equal(await rig.transcribe(text), 'heard', shown(text))
    t.same((await rig.run(text)).word, 'heard', 'by a job')
    t.same(rig.dialled, ['8.8.8.8 443', '8.8.8.8 443'])
    const { pathname, search, host } = new URL(href)
    const head = `GET ${pathname + search} HTTP/1.1\r\nhost: ${host}\r\n`
    t.ok(
      rig.requests.slice(-2).every((request) => request.startsWith(head)),
      'as it was parsed',
    )
  }
  t.equal(rig.sentinels(), 0)
})

t.test('what is refused as a text is told so, at once and before there is a job', async (t) => {
  let resolved = 0
  const resolve = async () => {
    resolved += 1
    return ['8.8.8.8']
  }
  const rig = await startGuardRig(t, { domains: DOMAINS, resolve })
  for (const [reason, texts] of Object.entries(REFUSED_URLS)) {
    for (const text of texts) {
      // An empty field is none: the guard is not asked.
      const word = text === '' ? 'INVALID_REQUEST' : `AUDIO_URL_REJECTED ${reason}`
      t.equal(await rig.transcribe(text), word, shown(text))
      t.same(await rig.run(text), { id: null, word: `refused: ${word}` }, 'for a job')
    }
  }
  t.same([resolved, rig.dialled, rig.sentinels(), rig.heard()], [0, [], 0, 0])
})

t.test('an address of this machine is not reached by its own port', async (t) => {
  const rig = await startGuardRig(t, { domains: DOMAINS })
  const { port } = rig.sentinel
  for (const host of ['127.0.0.1', '127.1', '2130706433', '0x7f000001', '[::1]', '[::ffff:127.0.0.1]']) {
    const url = `https://${host}:${port}/`
    t.match(await rig.transcribe(url), /^AUDIO_URL_REJECTED /, url)
    t.match(await rig.run(url), { id: null, word: /^refused: AUDIO_URL_REJECTED / })
    t.equal(await rig.putWebhook(url), 400)
    await rig.keepWebhook(url)
    t.match(await rig.deliver(), /^the URL must /)
  }
  t.same([rig.dialled, rig.sentinels()], [[], 0])
})

t.test('a webhook is refused as a text when it is set, and when it is there all the same', async (t) => {
  let resolved = 0
  const resolve = async () => {
    resolved += 1
    return ['8.8.8.8']
  }
  const rig = await startGuardRig(t, { domains: DOMAINS, resolve })
  for (const text of URLS_REFUSED_TO_HOOKS) {
    t.equal(await rig.putWebhook(text), 400, shown(text))
    // SQLite reads a text up to its first NUL, so that another URL would be back.
    if (text.includes('\0')) continue
    await rig.keepWebhook(text)
    t.match(await rig.deliver(), /^the URL (?:must|is over) /, 'its event is given up')
  }
  t.same([resolved, rig.dialled, rig.sentinels()], [0, [], 0])
})

t.test('a webhook goes where its URL leads to, once it is parsed', async (t) => {
  const rig = await startGuardRig(t, { domains: DOMAINS })
  for (const [text, connection] of Object.entries(URLS_OF_HOOKS)) {
    rig.dialled.length = 0
    t.equal(await rig.putWebhook(text), 200, shown(text))
    const outcome = await rig.deliver()
    t.same(rig.dialled, [connection])
    // The host has no certificate for the others.
    if (text in URLS_OF_HOOKS_ALONE) t.match(outcome, /^delivered$|ALTNAME_INVALID/)
    else t.equal(outcome, 'delivered')
  }
  t.equal(rig.sentinels(), 0)
})
