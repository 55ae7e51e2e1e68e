-- The steps of jobs and of their events. It runs in front of the scripts that call them, and is none by itself.
--
-- Which jobs a script will touch shows only while it runs, so it is not told their keys. They begin with that of the
-- partition (KEYS[1]), and with its hash tag, so they are where it is. KEYS[2] is never written: a cluster refuses a
-- script as a whole while its slot moves from node to node and one of its keys is not there. That one never is, so no
-- script finds half of a partition.
--
-- The first write of a script is one that a full server refuses, and what it refuses once it would refuse throughout:
-- nothing is done by half.
--
-- What a partition is made of:
--   (itself)                  hash: number (the last that was given), turn (jobs taken), waiting (jobs queued),
--                             ended:<kind>:<status> (how often jobs came to that end)
--   job:<id>                  hash: the job; what is not known of it is not there
--   ready:<mode>:<workspace>  sorted set: jobs that may be taken, by their numbers
--   ring:<mode>               sorted set, the round robin of a mode: workspaces that have such jobs, by their turns
--   parked                    sorted set, the throttled workspaces, which are in no round robin: by how many running
--                             jobs were enough for that
--   running                   hash: how many jobs of a workspace are taken
--   leases                    sorted set: `<id> <workspace>` of the jobs that are taken, by when their claim is over
--   waiting:<kind>:<mode>     sorted set: jobs that are queued, by when they were or will be ready; for monitoring
--   abandoned                 sorted set: jobs that no worker has ended and whose usage is not recorded yet, by when
--                             they may be handed out for that; `charged` of a job is what its runs had cost by then
--   delayed, expiry           sorted sets: jobs by when their delay, their record is over
--   index                     sorted set: all jobs, by when they were submitted
--   app:<workspace>:<app>     sorted set: transcription jobs of an app, by their ids
--   slot:<workspace>:<id>     hash: job, fingerprint, keep_until
--   claim:<token>             what a claim has taken
--   event:<id of the job>     hash: the event
--   due:<workspace>           sorted set: events that wait, by when they may be sent
--   flights:<workspace>       sorted set: events that are being sent, by when their lease is over
--   turns:<well or ailing>    sorted sets, the round robins of events: workspaces with either, by the microsecond at
--                             which to look at them
--   ailing                    set: workspaces to which the last attempt failed
--   given_up                  sorted set: events that were given up, by when they are forgotten
--   events                    sorted set: all events, by when their jobs ended
--   incidents                 hash, in one partition: what alerts told of and is not over, by name; its events have
--                             their own id in the place of a job's
--
-- What other processes would find only with their next look is published on a channel of its own: `queued <partition>`,
-- `changed <id>`. Nothing depends on who hears it, nor on whether it may be published.
--
-- A record may be lost, where a server was told to evict keys, or by an operator's hand. Whoever meets its id then takes
-- that off the list and goes on: it must keep no other job waiting.

local MODES = { 'priority', 'standard', 'bulk' }
local KINDS = { 'transcription', 'queue' }
local HISTORY_MAX = 64
local THROTTLED = 'parked'

local partition = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- Whole and without an exponent.
local function digits(number) return string.format('%.0f', number) end
local function key(...) return table.concat({ partition, ... }, ':') end
local function round_robin(mode) return key('ring', mode) end
local function event_round_robin(health) return key('turns', health) end
local function exists(name) return redis.call('EXISTS', name) == 1 end
local function next_number() return digits(redis.call('HINCRBY', partition, 'number', 1)) end
local function hint(...) redis.pcall('PUBLISH', 'lk:jobs', table.concat({ ... }, ' ')) end
local function waiting_list(kind, mode) return key('waiting', kind, mode) end
local function ended_field(kind, status) return table.concat({ 'ended', kind, status }, ':') end
local function app_list(workspace, app) return key('app', workspace, app) end

-- What the steps go by; nil: there is no such job, or less of it than that.
local function read_job(id)
  local held = redis.call('HMGET', key('job', id), 'status', 'workspace', 'app', 'mode', 'kind', 'event', 'number',
    'fence', 'strays', 'cancel', 'ending', 'marked', 'ended', 'expires', 'erased')
  for i = 1, 7 do
    if not held[i] then return nil end
  end
  return {
    id = id, status = held[1], workspace = held[2], app = held[3], mode = held[4], kind = held[5], event = held[6],
    number = held[7], fence = tonumber(held[8] or 0), stalled = tonumber(held[9] or 0), is_cancelled = held[10] == '1',
    ending = held[11], is_marked = held[12] == '1', ended = held[13], expires = held[14], erased = held[15],
  }
end

-- Its time is over: nobody sees it any more, whether or not the purge has come to it.
local function is_gone(job)
  return job.is_marked or (job.expires and tonumber(job.expires) <= now_ms)
end

-- All fields and values of a job; empty: there is none, or its time is over.
local function show_job(id)
  local name = key('job', id)
  local marked, expires = unpack(redis.call('HMGET', name, 'marked', 'expires'))
  if is_gone({ is_marked = marked, expires = expires }) then return {} end
  return redis.call('HGETALL', name)
end

-- Into another status; the history says so. Fields and values may follow.
local function change(job, status, ...)
  local name = key('job', job.id)
  local line = table.concat({ digits(now_ms), status, digits(job.fence) }, ' ')
  local history = redis.call('HGET', name, 'history')
  if history then
    local _, breaks = string.gsub(history, '\n', '')
    if breaks + 1 >= HISTORY_MAX then history = string.match(history, '\n(.*)') end
    line = history .. '\n' .. line
  end
  job.status = status
  redis.call('HSET', name, 'status', status, 'history', line, ...)
end

-- The workspace is served in its turn, behind those that wait for theirs. Returns whether it was not before.
local function serve(workspace, mode)
  if redis.call('ZSCORE', key(THROTTLED), workspace) then return false end
  return redis.call('ZADD', round_robin(mode), 'NX', next_number(), workspace) == 1
end

-- Workers that have nothing to do may take it up: as long as jobs of the workspace were waiting there are none of these.
local function offer(workspace, mode)
  if serve(workspace, mode) then hint('queued', string.match(partition, '(%d+)}$')) end
end

-- It may have another one running.
local function unthrottle(workspace)
  redis.call('ZREM', key(THROTTLED), workspace)
  for _, mode in ipairs(MODES) do
    if exists(key('ready', mode, workspace)) then offer(workspace, mode) end
  end
end

local function make_ready(job)
  redis.call('ZADD', key('ready', job.mode, job.workspace), job.number, job.id)
  offer(job.workspace, job.mode)
end

local function queue(job, delay_ms)
  redis.call('HINCRBY', partition, 'waiting', 1)
  redis.call('ZADD', waiting_list(job.kind, job.mode), digits(now_ms + delay_ms), job.id)
  if delay_ms > 0 then
    redis.call('ZADD', key('delayed'), digits(now_ms + delay_ms), job.id)
  else
    make_ready(job)
  end
end

-- It does not wait any more; nil for the job: its record was lost.
local function stop_waiting(id, job)
  redis.call('HINCRBY', partition, 'waiting', -1)
  if job then
    redis.call('ZREM', waiting_list(job.kind, job.mode), id)
    return
  end
  for _, kind in ipairs(KINDS) do
    for _, mode in ipairs(MODES) do redis.call('ZREM', waiting_list(kind, mode), id) end
  end
end

local function leave_queue(job)
  stop_waiting(job.id, job)
  redis.call('ZREM', key('delayed'), job.id)
  local ready = key('ready', job.mode, job.workspace)
  redis.call('ZREM', ready, job.id)
  if not exists(ready) then redis.call('ZREM', round_robin(job.mode), job.workspace) end
end

-- The workspace stands with the id, so that its place is free again when the record is lost.
local function lease_of(job) return job.id .. ' ' .. job.workspace end

local function lease(job, lease_ms) redis.call('ZADD', key('leases'), digits(now_ms + lease_ms), lease_of(job)) end

-- Of the job no more is needed than its id and its workspace.
local function stop_running(job)
  if redis.call('HINCRBY', key('running'), job.workspace, -1) <= 0 then
    redis.call('HDEL', key('running'), job.workspace)
  end
  redis.call('ZREM', key('leases'), lease_of(job))
  unthrottle(job.workspace)
end

local function event_round_robin_of(workspace)
  return event_round_robin(redis.call('SISMEMBER', key('ailing'), workspace) == 1 and 'ailing' or 'well')
end

-- An event of the workspace is due or in flight: somebody looks at it then, if not sooner.
local function wake(workspace, at_ms)
  redis.call('ZADD', event_round_robin_of(workspace), 'LT', digits(at_ms * 1000), workspace)
end

-- Writes the event of a job's end as one that was never sent.
local function announce(job)
  redis.call('HSET', key('event', job.id), 'id', job.event, 'workspace', job.workspace, 'status', job.status,
    'occurred', job.ended, 'attempts', '0')
  redis.call('ZADD', key('events'), job.ended, job.id)
  redis.call('ZADD', key('due', job.workspace), digits(now_ms), job.id)
  wake(job.workspace, now_ms)
end

-- Out of the arguments that begin there.
local function retention(first)
  local function milliseconds(i) return tonumber(ARGV[first + i]) end
  return { transcription = milliseconds(0), queue = milliseconds(1), dead = milliseconds(2) }
end

local ERASED = '1'

-- What was sent and heard goes, and `spec` is what is left of the specification.
local function erase(job, spec)
  local name = key('job', job.id)
  redis.call('HSET', name, 'spec', spec, 'erased', ERASED)
  redis.call('HDEL', name, 'result')
end

-- Into a status for good. Fields and values may follow.
local function finish(job, status, keep, ...)
  local keep_ms = keep.queue
  if job.kind == 'transcription' then keep_ms = keep.transcription elseif status == 'failed' then keep_ms = keep.dead end
  local expires = digits(now_ms + keep_ms)
  job.ended = digits(now_ms)
  change(job, status, 'ended', job.ended, 'expires', expires, ...)
  redis.call('HDEL', key('job', job.id), 'progress')
  if job.erased and job.erased ~= ERASED then erase(job, job.erased) end
  redis.call('ZADD', key('expiry'), expires, job.id)
  redis.call('HINCRBY', partition, ended_field(job.kind, status), 1)
  if job.event ~= '' then announce(job) end
  hint('changed', job.id)
end

-- The same where no worker does it: nobody has recorded its usage.
local function abandon(job, status, keep, ...)
  local name = key('job', job.id)
  local is_read, progress = pcall(cjson.decode, redis.call('HGET', name, 'progress') or '{}')
  local charged = is_read and type(progress) == 'table' and tonumber(progress.chargedMicros)
  redis.call('ZADD', key('abandoned'), digits(now_ms), job.id)
  if charged then redis.call('HSET', name, 'charged', digits(charged)) end
  finish(job, status, keep, ...)
end

local function forget_abandoned(id)
  redis.call('ZREM', key('abandoned'), id)
  redis.call('HDEL', key('job', id), 'charged')
end
