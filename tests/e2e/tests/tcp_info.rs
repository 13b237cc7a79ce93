//! TCP_INFO is laid out as the kernel's header has it: every field that we fill is at
//! the offset that a C program would read it from.

use longshore_tcp::{EcnTotals, LINUX_TCP_INFO_LEN, State, TcpInfo};
use std::collections::HashMap;
use std::process::Command;

/// What we fill, each field with a value of its own, by the name in `linux/tcp.h`, with
/// the value that a program must find there.
fn filled() -> (TcpInfo, Vec<(&'static str, u64)>) {
    let info = TcpInfo {
        state: State::CloseWait,
        ca_state: 3,
        retransmits: 21,
        probes: 22,
        backoff: 23,
        rto_us: 1_001,
        ato_us: 1_002,
        snd_mss: 1,
        rcv_mss: 1_003,
        unacked: 1_004,
        sacked: 1_005,
        lost: 1_006,
        retrans: 1_007,
        last_data_sent_us: 1_008_000,
        last_data_recv_us: 1_009_000,
        last_ack_recv_us: 1_010_000,
        pmtu: 1_011,
        rcv_wnd: 1_012,
        rtt_us: 1_013,
        rttvar_us: 1_014,
        snd_ssthresh: 1_015,
        snd_cwnd: 1_016,
        advmss: 1_017,
        rcv_rtt_us: 1_018,
        rcv_space: 1_019,
        total_retrans: 1_020,
        pacing_rate: 1_021,
        max_pacing_rate: 1_022,
        bytes_acked: 1_023,
        bytes_received: 1_024,
        segs_out: 1_025,
        segs_in: 1_026,
        notsent_bytes: 1_027,
        min_rtt_us: 1_028,
        data_segs_in: 1_029,
        data_segs_out: 1_030,
        bytes_sent: 1_031,
        bytes_retrans: 1_032,
        dsack_dups: 1_033,
        reord_seen: 1_034,
        rcv_ooopack: 1_035,
        snd_wnd: 1_036,
        total_rto: 1_037,
        delivery_rate: 1_038,
        busy_us: 1_039,
        rwnd_limited_us: 1_040,
        sndbuf_limited_us: 1_049,
        total_rto_recoveries: 1_050,
        total_rto_ms: 1_051,
        ecn_totals: EcnTotals {
            received_ce: 1_041,
            received_e1_bytes: 1_042,
            received_e0_bytes: 1_043,
            received_ce_bytes: 1_044,
            delivered_ce: 1_045,
            delivered_e1_bytes: 1_046,
            delivered_e0_bytes: 1_047,
            delivered_ce_bytes: 1_048,
        },
        ..TcpInfo::default()
    };
    let expected = vec![
        ("tcpi_state", State::CloseWait as u64),
        ("tcpi_ca_state", 3),
        ("tcpi_retransmits", 21),
        ("tcpi_probes", 22),
        ("tcpi_backoff", 23),
        ("tcpi_rto", 1_001),
        ("tcpi_ato", 1_002),
        ("tcpi_snd_mss", 1),
        ("tcpi_rcv_mss", 1_003),
        ("tcpi_unacked", 1_004),
        ("tcpi_sacked", 1_005),
        ("tcpi_lost", 1_006),
        ("tcpi_retrans", 1_007),
        ("tcpi_last_data_sent", 1_008),
        ("tcpi_last_data_recv", 1_009),
        ("tcpi_last_ack_recv", 1_010),
        ("tcpi_pmtu", 1_011),
        ("tcpi_rcv_ssthresh", 1_012),
        ("tcpi_rtt", 1_013),
        ("tcpi_rttvar", 1_014),
        ("tcpi_snd_ssthresh", 1_015),
        ("tcpi_snd_cwnd", 1_016),
        ("tcpi_advmss", 1_017),
        ("tcpi_rcv_rtt", 1_018),
        ("tcpi_rcv_space", 1_019),
        ("tcpi_total_retrans", 1_020),
        ("tcpi_pacing_rate", 1_021),
        ("tcpi_max_pacing_rate", 1_022),
        ("tcpi_bytes_acked", 1_023),
        ("tcpi_bytes_received", 1_024),
        ("tcpi_segs_out", 1_025),
        ("tcpi_segs_in", 1_026),
        ("tcpi_notsent_bytes", 1_027),
        ("tcpi_min_rtt", 1_028),
        ("tcpi_data_segs_in", 1_029),
        ("tcpi_data_segs_out", 1_030),
        // Packets of `tcpi_snd_mss` that are acknowledged or reported, and our SYN.
        ("tcpi_delivered", 1_023 + 1_005 + 1),
        ("tcpi_bytes_sent", 1_031),
        ("tcpi_bytes_retrans", 1_032),
        ("tcpi_dsack_dups", 1_033),
        ("tcpi_reord_seen", 1_034),
        ("tcpi_rcv_ooopack", 1_035),
        ("tcpi_snd_wnd", 1_036),
        ("tcpi_rcv_wnd", 1_012),
        ("tcpi_total_rto", 1_037),
        ("tcpi_delivery_rate", 1_038),
        ("tcpi_busy_time", 1_039),
        ("tcpi_rwnd_limited", 1_040),
        ("tcpi_sndbuf_limited", 1_049),
        ("tcpi_total_rto_recoveries", 1_050),
        ("tcpi_total_rto_time", 1_051),
        ("tcpi_received_ce", 1_041),
        ("tcpi_received_e1_bytes", 1_042),
        ("tcpi_received_e0_bytes", 1_043),
        ("tcpi_received_ce_bytes", 1_044),
        ("tcpi_delivered_ce", 1_045),
        ("tcpi_delivered_e1_bytes", 1_046),
        ("tcpi_delivered_e0_bytes", 1_047),
        ("tcpi_delivered_ce_bytes", 1_048),
    ];
    (info, expected)
}

/// Offset and size of each field, as the C compiler sees the kernel's header. Fields that
/// an older header lacks are left out.
fn offsets(names: &[&str]) -> HashMap<String, (usize, usize)> {
    let directory = tempfile::tempdir().expect("make a directory");
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("header.c"), "#include <linux/tcp.h>\n").expect("write");
    let header = Command::new("gcc")
        .args(["-E", "-P"])
        .arg(file("header.c"))
        .output()
        .expect("run gcc");
    let header = String::from_utf8(header.stdout).expect("text");
    let mut program = String::from(
        "#include <linux/tcp.h>\n#include <stddef.h>\n#include <stdio.h>\n\
         int main(void) { struct tcp_info i;\n",
    );
    for name in names {
        let known = header
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == *name);
        if known {
            program.push_str(&format!(
                "printf(\"{name} %zu %zu\\n\", offsetof(struct tcp_info, {name}), sizeof i.{name});\n"
            ));
        }
    }
    program.push_str("return 0; }\n");
    std::fs::write(file("offsets.c"), program).expect("write");
    let built = Command::new("gcc")
        .arg(file("offsets.c"))
        .arg("-o")
        .arg(file("offsets"))
        .status();
    assert!(built.expect("run gcc").success());
    let said = Command::new(file("offsets")).output().expect("run it");
    String::from_utf8(said.stdout)
        .expect("text")
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse().expect("a number");
            (words[0].to_owned(), (number(1), number(2)))
        })
        .collect()
}

#[test]
fn every_field_is_where_the_kernels_header_has_it() {
    let (info, expected) = filled();
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let offsets = offsets(&names);
    // What a header of Linux 4.19 has.
    assert!(offsets.len() >= 39, "{offsets:?}");
    let bytes = info.to_linux();
    assert_eq!(bytes.len(), LINUX_TCP_INFO_LEN);
    for (name, value) in expected {
        let Some(&(offset, size)) = offsets.get(name) else {
            continue;
        };
        let mut word = [0; 8];
        word[..size].copy_from_slice(&bytes[offset..][..size]);
        assert_eq!(u64::from_le_bytes(word), value, "{name} at {offset}");
    }
}
