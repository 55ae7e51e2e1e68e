-- Adds a line to the audit list, once per token.
--
-- KEYS catalog never
-- ARGV token workspace json token_ms
-- Reply 1 | 0: whether this call added it

if not redis.call('SET', key('note', ARGV[1]), '', 'NX', 'PX', ARGV[4]) then return 0 end
add_line(ARGV[2], ARGV[3])
return 1
