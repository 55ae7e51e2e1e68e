-- Ends an attempt to deliver an event.
--
-- KEYS partition never
-- ARGV job_id attempts ending delay_ms reason keep_ms
-- Reply 1 | 0: whether the event was at this attempt
--
-- `ending` is delivered, dropped, retry or given_up. An event that is kept knows how its last attempt ended, so that an
-- ending is known when it is sent again. One that was asked for anew while this attempt went on begins anew, whatever
-- came of it.

local id, ending = ARGV[1], ARGV[3]
local name = key('event', id)

local workspace, attempts, ended, again = unpack(redis.call('HMGET', name, 'workspace', 'attempts', 'ended', 'again'))
if not workspace or attempts ~= ARGV[2] then return 0 end
local mark = ending .. ' ' .. attempts
if ended then return ended == mark and 1 or 0 end

local due, flights = key('due', workspace), key('flights', workspace)

-- What came of the attempt: from now on the workspace is served among others of its kind.
local function note(has_failed)
  local before = event_round_robin_of(workspace)
  local at_us = redis.call('ZSCORE', before, workspace)
  redis.call(has_failed and 'SADD' or 'SREM', key('ailing'), workspace)
  local after = event_round_robin_of(workspace)
  if at_us and after ~= before then
    redis.call('ZADD', after, at_us, workspace)
    redis.call('ZREM', before, workspace)
  end
end

local function wait(delay_ms)
  redis.call('ZADD', due, digits(now_ms + delay_ms), id)
  wake(workspace, now_ms + delay_ms)
end

note(ending == 'retry' or ending == 'given_up')
if again then
  redis.call('HSET', name, 'attempts', '0')
  redis.call('HDEL', name, 'again', 'reason')
  wait(0)
elseif ending == 'retry' then
  redis.call('HSET', name, 'ended', mark, 'reason', ARGV[5])
  wait(tonumber(ARGV[4]))
else
  if ending == 'given_up' then
    redis.call('HSET', name, 'ended', mark, 'reason', ARGV[5])
    redis.call('ZADD', key('given_up'), digits(now_ms + ARGV[6]), id)
  else
    redis.call('DEL', name)
    redis.call('ZREM', key('events'), id)
  end
  redis.call('ZREM', due, id)
end
redis.call('ZREM', flights, id)
if exists(due) then
  -- A place is free, for what is due already.
  wake(workspace, now_ms)
elseif not exists(flights) then
  redis.call('ZREM', event_round_robin_of(workspace), workspace)
end
return 1
