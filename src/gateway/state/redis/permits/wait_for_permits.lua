-- Queues tokens of a node for a permit, says that the node goes on waiting, and tells it which tokens got one.
--
-- KEYS permits
-- ARGV name most node waiters lease_ms seen_ms
-- Reply {known, contention, token ...}: '0' when the node was not heard of for so long that its tokens were passed over,
--   so that it has to queue all of them again, else '1'; who else waits; the tokens that have a permit
--
-- `waiters`: JSON, [[token, workspace], ...]; those that wait already keep their places
-- `seen_ms`: how long the node is taken to be alive, from now
--
-- A workspace takes one place in each round, so that one with many calls keeps no other one waiting: a token's round is
-- the first one behind that which is served, and behind that of its workspace's last call.

local name, most, node, waiters = ARGV[1], tonumber(ARGV[2]), ARGV[3], cjson.decode(ARGV[4])
local lease_ms, seen_ms = tonumber(ARGV[5]), tonumber(ARGV[6])
local waiting, seen, rounds =
  permits .. ':waiting:' .. name, permits .. ':seen:' .. name, permits .. ':rounds:' .. name
local now = now_ms()

local known = tonumber(redis.call('HGET', seen, node) or 0) > now and '1' or '0'
redis.call('HSET', seen, node, integer(now + seen_ms))

local reply = { known, '' }
for _, waiter in ipairs(waiters) do
  local token, workspace = waiter[1], waiter[2]
  if redis.call('ZSCORE', permits .. ':held:' .. name, token) then
    reply[#reply + 1] = token
  elseif not redis.call('ZSCORE', waiting, token) then
    local served = tonumber(redis.call('HGET', rounds, 'now') or 0)
    local last = tonumber(redis.call('HGET', rounds, 'of:' .. workspace) or 0)
    local round = integer(math.max(served, last) + 1)
    redis.call('ZADD', waiting, round, token)
    redis.call('HSET', rounds, 'of:' .. workspace, round)
  end
end
for _, key in ipairs({ waiting, seen, rounds }) do keep(key, seen_ms) end

serve(name, most, now, lease_ms)
reply[2] = contention(name, most, node, now)
for _, token in ipairs(granted_to(node, name)) do reply[#reply + 1] = token end
return reply
