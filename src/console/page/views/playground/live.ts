import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApiError, toApiError } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Copy } from '../../components/copy.ts'
import { Section } from '../../components/page-head.ts'
import { Note } from '../../components/states.ts'
import { h } from '../../h.ts'
import { useLeaveGuard } from '../../router.ts'
import { type AppKeys, CallFailure } from './calls.ts'
import type { LiveSocket, LiveText } from './live-session.ts'
import { NO_TEXT, openSession, partialText, withMessage } from './live-session.ts'
import { type Microphone, openMicrophone } from './microphone.ts'
import { LevelMeter, microphoneTrouble } from './recording.ts'
import { readTranscript } from './reply.ts'
import { clockTime, ResultFacts } from './transcript.ts'

/** How far a session is. */
type Run =
  | { readonly at: 'idle' | 'asking' | 'ending' | 'done' }
  | { readonly at: 'listening'; readonly microphone: Microphone; readonly sinceMs: number }
  | { readonly at: 'refused'; readonly why: string }
  | { readonly at: 'failed'; readonly error: ApiError }

/** How far it is, for who does not see it; failures speak for themselves. */
const SAID: Readonly<Record<Run['at'], string>> = {
  idle: '',
  asking: 'Opening the microphone',
  listening: 'Listening',
  ending: 'Waiting for the last words',
  refused: '',
  failed: '',
  done: 'Done',
}

/** Live transcription of the microphone: a level meter, and a transcript that grows. */
export function Live(props: { readonly workspace: string; readonly app: string; readonly keys: AppKeys }) {
  const { workspace, app, keys } = props
  const { run, text, start, stop, tookMs } = useLive(keys, app)
  const isOpen = run.at === 'listening' || run.at === 'ending' || run.at === 'asking'
  useLeaveGuard(isOpen, 'Leave and end the session?')
  return h(
    'div',
    { class: 'stack' },
    h(
      'div',
      { class: 'play-live-bar' },
      run.at === 'listening'
        ? h(Listening, { run, onStop: stop })
        : h(
            Button,
            { kind: 'primary', icon: 'mic', busy: isOpen, disabled: app === '', onClick: start },
            text === NO_TEXT ? 'Start listening' : 'Start again',
          ),
      run.at === 'idle'
        ? h('span', { class: 'small quiet' }, 'Audio goes to the app’s route as you speak, and is billed.')
        : null,
    ),
    h('p', { class: 'hidden', role: 'status' }, SAID[run.at]),
    run.at === 'refused' ? h(Note, { tone: 'warn' }, run.why) : null,
    run.at === 'failed' ? h(CallFailure, { workspace, error: run.error }) : null,
    text === NO_TEXT && !isOpen ? null : h(GrowingTranscript, { text, isOpen }),
    text.done === null ? null : h(Envelope, { workspace, done: text.done, tookMs }),
  )
}

function Listening(props: {
  readonly run: Extract<Run, { readonly at: 'listening' }>
  readonly onStop: () => void
}) {
  const { sinceMs, microphone } = props.run
  const [seconds, setSeconds] = useState(0)
  const button = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    // The pressed button is gone.
    button.current?.querySelector('button')?.focus()
  }, [])
  useEffect(() => {
    const timer = setInterval(() => setSeconds((Date.now() - sinceMs) / 1_000), 250)
    return () => clearInterval(timer)
  }, [sinceMs])
  return h(
    'div',
    { class: 'play-recording', role: 'group', 'aria-label': 'Live session', ref: button },
    h(Button, { kind: 'danger', icon: 'stop', onClick: props.onStop }, 'Stop'),
    h('span', { class: 'play-recording-time' }, clockTime(seconds)),
    h(LevelMeter, { stream: microphone.stream }),
  )
}

/** Finished text stays and is announced; unfinished text follows it and is replaced. */
function GrowingTranscript({ text, isOpen }: { readonly text: LiveText; readonly isOpen: boolean }) {
  const box = useRef<HTMLDivElement>(null)
  const partial = partialText(text)
  useEffect(() => {
    box.current?.scrollTo({ top: box.current.scrollHeight })
  }, [text])
  const whole = text.items.filter(({ kind }) => kind === 'said').map((item) => item.text)
  return h(
    Section,
    {
      title: 'Transcript',
      actions:
        whole.length === 0
          ? null
          : h(Copy, { text: whole.join(' '), label: 'Copy transcript' }, 'Copy transcript'),
    },
    h(
      'div',
      { class: 'play-live', ref: box, tabindex: 0, role: 'region', 'aria-label': 'Growing transcript' },
      h(
        'div',
        { role: 'log', 'aria-label': 'Finished text' },
        text.items.map(({ kind, text: line, speaker }, index) =>
          kind === 'notice'
            ? h('div', { class: 'play-live-notice', key: index }, h(Note, { tone: 'warn' }, line))
            : h(
                'span',
                { class: 'play-live-said', key: index },
                speaker === null ? null : h('span', { class: 'play-who' }, speaker, ': '),
                line,
                ' ',
              ),
        ),
      ),
      partial === '' ? null : h('span', { class: 'play-live-partial' }, partial),
      text.items.length === 0 && partial === ''
        ? h('p', { class: 'quiet' }, isOpen ? 'Nothing heard yet.' : 'Nothing was heard.')
        : null,
    ),
  )
}

function Envelope(props: { readonly workspace: string; readonly done: string; readonly tookMs: number }) {
  const { workspace, done, tookMs } = props
  const facts = readTranscript(done, () => 'application/json')
  return h(Section, { title: 'Session' }, h(ResultFacts, { workspace, facts, tookMs }))
}

/** Audio that is heard before the session is admitted, in pieces of 50 ms. */
const WAITING_MAX = 200

/** One session at a time. Leaving the view ends it. */
function useLive(keys: AppKeys, app: string) {
  const [run, setRun] = useState<Run>({ at: 'idle' })
  const [text, setText] = useState<LiveText>(NO_TEXT)
  const [tookMs, setTookMs] = useState(0)
  const current = useRef<LiveRun | null>(null)
  useEffect(() => () => current.current?.abandon(), [])

  const start = async () => {
    current.current?.abandon()
    const mine = new LiveRun(keys, app, {
      show: (next) => current.current === mine && setRun(next),
      heard: (next) => current.current === mine && setText(next),
    })
    current.current = mine
    setText(NO_TEXT)
    const beganMs = performance.now()
    await mine.run()
    if (current.current === mine) setTookMs(performance.now() - beganMs)
  }
  return { run, text, tookMs, start, stop: () => current.current?.stop() }
}

interface Shown {
  readonly show: (run: Run) => void
  readonly heard: (text: LiveText) => void
}

/** A session from the press of the button to its end. */
class LiveRun {
  readonly #keys: AppKeys
  readonly #app: string
  readonly #shown: Shown
  readonly #abort = new AbortController()
  readonly #waiting: Int16Array<ArrayBuffer>[] = []
  #text = NO_TEXT
  #microphone: Microphone | null = null
  #socket: LiveSocket | null = null
  #ended: () => void = () => {}

  constructor(keys: AppKeys, app: string, shown: Shown) {
    this.#keys = keys
    this.#app = app
    this.#shown = shown
  }

  /** Resolves when it is over. */
  async run(): Promise<void> {
    const { show, heard } = this.#shown
    show({ at: 'asking' })
    const over = new Promise<void>((resolve) => {
      this.#ended = resolve
    })
    const microphone = await this.#openMicrophone()
    if (microphone === null) return
    try {
      this.#socket = await openSession(this.#keys, this.#app, microphone.sampleRate, this.#abort.signal, {
        onMessage: (message) => {
          this.#text = withMessage(this.#text, message)
          heard(this.#text)
          if (message.type === 'done') this.#finish({ at: 'done' })
        },
        onFailed: (error) => this.#finish({ at: 'failed', error }),
      })
      show({ at: 'listening', microphone, sinceMs: Date.now() })
      for (const piece of this.#waiting.splice(0)) this.#send(piece)
      await over
    } catch (thrown) {
      this.#finish({ at: 'failed', error: toApiError(thrown) })
    }
  }

  /** Ends the audio: what was said until now is still transcribed. */
  stop(): void {
    this.#microphone?.close()
    this.#socket?.end()
    this.#shown.show({ at: 'ending' })
  }

  /** Gives the session up. */
  abandon(): void {
    this.#abort.abort()
    this.#microphone?.close()
    this.#socket?.close()
    this.#ended()
  }

  async #openMicrophone(): Promise<Microphone | null> {
    try {
      const opened = await openMicrophone(
        (piece) => this.#send(piece),
        () => this.stop(),
      )
      this.#microphone = opened
      if (!this.#abort.signal.aborted) return opened
      opened.close()
    } catch (thrown) {
      const name = thrown instanceof DOMException ? thrown.name : ''
      this.#shown.show({ at: 'refused', why: microphoneTrouble(name, 'transcribe a file instead') })
    }
    return null
  }

  #send(piece: Int16Array<ArrayBuffer>): void {
    if (this.#socket === null) {
      this.#waiting.push(piece)
      if (this.#waiting.length > WAITING_MAX) this.#waiting.shift()
    } else if (!this.#socket.send(piece)) {
      const message = 'this connection is too slow for live audio'
      this.#finish({ at: 'failed', error: new ApiError(message, { code: 'UNREACHABLE', status: 0 }) })
    }
  }

  #finish(run: Run): void {
    if (this.#abort.signal.aborted) return
    this.abandon()
    this.#shown.show(run)
  }
}
