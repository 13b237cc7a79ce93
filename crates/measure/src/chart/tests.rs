//! Charts as they are drawn.

use super::*;

fn chart(kind: Kind, y: Axis) -> Chart {
    Chart {
        title: "Bandwidth & more".to_owned(),
        x: Axis::doubling("payload, bytes"),
        y,
        kind,
        series: vec![
            Series::new("one", vec![(0.0, 3.0), (1.0, 5.0)]),
            Series::new("another", vec![(0.0, 300.0), (1.0, 1.0)]),
        ],
    }
}

#[test]
fn each_kind_is_drawn_with_its_names() {
    let groups = || vec!["left".to_owned(), "right".to_owned()];
    for kind in [Kind::Bars(groups()), Kind::Stacked(groups()), Kind::Lines] {
        for y in [Axis::linear("Gb/s"), Axis::decades("Gb/s")] {
            let mut chart = chart(kind.clone(), y);
            if kind == Kind::Lines {
                chart
                    .series
                    .iter_mut()
                    .flat_map(|s| &mut s.points)
                    .for_each(|p| p.0 += 64.0);
            }
            let drawing = render(&[chart.clone(), chart]).unwrap();
            for words in ["Bandwidth &amp; more", "one", "another", "Gb/s"] {
                assert!(drawing.matches(words).count() >= 2, "{words}: {drawing}");
            }
            assert_eq!(drawing.contains("right"), kind != Kind::Lines);
        }
    }
}

#[test]
fn stacked_bars_stand_on_each_other() {
    let chart = chart(Kind::Stacked(Vec::new()), Axis::linear("y"));
    let stacked = bars_of(&chart, true);
    assert_eq!(stacked[2], (1, 0.0, [3.0, 303.0]));
    assert_eq!(bars_of(&chart, false)[2], (1, 0.0, [0.0, 300.0]));
}

#[test]
fn powers_are_marked_and_nothing_between_them() {
    let (least, most) = Axis::doubling("").range([1500_f64.log2()].into_iter());
    assert_eq!((least, most), (10.0, 11.0));
    assert_eq!(Scale::Doubling.label(10.0), "1024");
    assert_eq!(Scale::Doubling.label(10.5), "");
    assert_eq!(Scale::Decades.label(-1.0), "0.1");
    assert_eq!(Scale::Linear.label(1.5e6), "1.5M");
}

#[test]
fn series_are_told_apart_and_named_whole() {
    let mut many = chart(Kind::Lines, Axis::linear("y"));
    let name = |number: usize| format!("a series with a rather long name, {number}");
    let series = |number| Series::new(&name(number), vec![(64.0, 1.0), (128.0, 2.0)]);
    many.series = (0..12).map(series).collect();
    let looks: Vec<Look> = (0..12).map(Look::of).collect();
    for (at, look) in looks.iter().enumerate() {
        assert!(!looks[..at].contains(look), "{at}");
    }
    let width = SIZE.0 + legend_width(&[many.clone()]);
    let longest = u32::try_from(name(11).len()).unwrap();
    assert_eq!(width, SIZE.0 + SWATCH + LETTER * longest);
    let drawing = render(&[many]).unwrap();
    assert!(drawing.starts_with(&format!("<svg width=\"{width}\"")));
    // Those beyond the colors have open points.
    assert_eq!(drawing.matches("fill=\"none\"").count() % 3, 0);
}

#[test]
fn nothing_to_draw_is_no_failure() {
    let mut empty = chart(Kind::Lines, Axis::decades("y"));
    empty.series.clear();
    assert!(render(&[empty]).unwrap().starts_with("<svg"));
    assert!(render(&[]).unwrap().starts_with("<svg"));
}
