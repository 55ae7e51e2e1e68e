import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Teardown } from '../support/scratch.ts'

/** What a page of another origin tries, each at one address; `done` says what it found out. */
const SCRIPT = `
const results = {}
const note = (name, value) => { results[name] = value }
const settle = async (name, make) => {
  try { note(name, String(await make())) } catch (error) { note(name, 'failed: ' + error.name) }
}
const frame = (name) => {
  const made = document.createElement('iframe')
  made.name = name
  document.body.append(made)
  return made
}
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
/** A form needs no leave to send, and with text/plain it says whatever it likes. */
const send = (target, action, enctype, fields, method = 'POST') => {
  frame(target)
  const form = document.createElement('form')
  Object.assign(form, { action, enctype, method, target })
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement('input')
    Object.assign(input, { type: 'hidden', name, value })
    form.append(input)
  }
  document.body.append(form)
  form.submit()
}
globalThis.attack = async (console_, changes) => {
  let number = 0
  for (const { method, path, body } of changes) {
    const url = console_ + path
    const text = JSON.stringify(body)
    send('form' + number, url, 'text/plain', { [text.slice(0, -1) + ',"x":"']: '"}' })
    const urlencoded = 'application/x-www-form-urlencoded'
    send('urlencoded' + number, url + '?_method=' + method, urlencoded, { ...body, _method: method })
    send('multipart' + number, url, 'multipart/form-data', { data: text })
    send('get' + number, url, '', { _method: method }, 'GET')
    for (const type of ['text/plain', 'text/plain;application/json', 'application/x-www-form-urlencoded'])
      await settle('plain ' + number + type, () => fetch(url, {
        method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'content-type': type }, body: text,
      }).then((answer) => answer.type))
    await settle('json ' + number, () => fetch(url, {
      method, credentials: 'include', body: text,
      headers: { 'content-type': 'application/json', 'x-lk-csrf': 'a'.repeat(43) },
    }).then((answer) => answer.status))
    await settle('bare ' + number, () => fetch(url, {
      method, credentials: 'include', mode: 'no-cors', body: new Blob([text]),
    }).then((answer) => answer.type))
    await settle('beacon ' + number, () => navigator.sendBeacon(url, new Blob([text], { type: 'text/plain' })))
    number += 1
  }
  for (const path of ['/console/api/session', '/console/api/workspaces', '/console/api/audit']) {
    const read = { credentials: 'include' }
    await settle('read ' + path, () => fetch(console_ + path, read).then((answer) => answer.text()))
    const blind = { ...read, mode: 'no-cors' }
    await settle('opaque ' + path, () => fetch(console_ + path, blind).then((answer) => answer.type))
    await settle('script ' + path, () => new Promise((resolve) => {
      const script = document.createElement('script')
      script.onload = () => resolve('loaded')
      script.onerror = () => resolve('refused')
      script.src = console_ + path
      document.head.append(script)
    }))
  }
  await settle('module', () => import(console_ + '/console/assets/session.ts').then((made) => Object.keys(made)))
  const framed = frame('console')
  framed.src = console_ + '/console'
  const shown = document.createElement('object')
  shown.data = console_ + '/console/acme/keys'
  document.body.append(shown)
  const opened = window.open(console_ + '/console/acme/keys')
  await pause(1500)
  await settle('framed', () => framed.contentDocument === null ? 'foreign' : framed.contentDocument.body.innerHTML)
  await settle('opened', () => opened === null ? 'null' : opened.closed ? 'cut' : 'open')
  await settle('opened document', () => opened.document.title)
  return results
}
`

/**
 * A server of pages that attack, below two names: `cross` is another site to a console at 127.0.0.1, `same` is another
 * origin of the same site, whose requests carry even the strictest cookies.
 */
export async function serveHostilePages(
  t: Teardown,
): Promise<{ readonly cross: string; readonly same: string }> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
    response.end(`<!doctype html><title>hostile</title><body><script>${SCRIPT}</script></body>`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { cross: `http://localhost:${port}/`, same: `http://127.0.0.1:${port}/` }
}
